//! What an image ships at the persisted roots. It is read once per image; an image that ships nothing there, the usual
//! case, costs nothing afterwards.

use super::content::{Body, Content, Kind, MOST_ENTRIES, Node};
use super::{SetupError, create_private};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use toolcell_protocol::TimeNs;
use toolcell_sandbox::{Image, SandboxProvider};

/// Images whose seeds are kept; the ones that were used longest ago go first.
const MOST_KEPT: usize = 16;
/// A tar archive has headers and padding besides the files' bytes.
const ARCHIVE_OVERHEAD_BYTES: u64 = 64 << 20;

/// Adds what the image ships at these roots.
pub(crate) async fn add(
    content: &mut Content,
    provider: &dyn SandboxProvider,
    data_dir: &Path,
    image: &Image,
    roots: &[String],
    most_bytes: u64,
) -> Result<(), SetupError> {
    let mut name = blake3::Hasher::new();
    for word in std::iter::once(&image.id).chain(roots) {
        name.update(&(word.len() as u64).to_le_bytes()).update(word.as_bytes());
    }
    let seeds = data_dir.join("seeds");
    let kept = seeds.join(name.finalize().to_hex().as_str());
    let host = |path: &Path| {
        let path = path.to_owned();
        move |source| SetupError::Host { path, source }
    };
    if !kept.exists() {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|error| host(&seeds)(std::io::Error::other(error)))?;
        // Where the next start of a server removes what a crash leaves.
        let fresh = data_dir.join("setup").join(data_encoding::HEXLOWER.encode(&random));
        create_private(&seeds).map_err(host(&seeds))?;
        create_private(&fresh).map_err(host(&fresh))?;
        let most = most_bytes.saturating_add(ARCHIVE_OVERHEAD_BYTES);
        let read = provider.image_archives(image, roots, &fresh, most).await.map_err(SetupError::Sandbox);
        let read = read.and_then(|archives| drop_empty(&archives));
        if let Err(error) = read {
            // What is told is why it could not be read.
            let _ = std::fs::remove_dir_all(&fresh);
            return Err(error);
        }
        match std::fs::rename(&fresh, &kept) {
            Ok(()) => drop_oldest(&seeds),
            // Somebody else has been first.
            Err(_) if kept.exists() => std::fs::remove_dir_all(&fresh).map_err(host(&fresh))?,
            Err(source) => return Err(host(&kept)(source)),
        }
    }
    for (number, _) in (0u16..).zip(roots) {
        let archive = kept.join(format!("{number}.tar"));
        if archive.exists() {
            add_archive(content, number, &archive)?;
        }
    }
    if content.bytes() > most_bytes {
        return Err(SetupError::TooLarge { path: PathBuf::from("what the image ships") });
    }
    Ok(())
}

/// An archive with nothing but the directory itself need not be kept.
fn drop_empty(archives: &[Option<PathBuf>]) -> Result<(), SetupError> {
    for path in archives.iter().flatten() {
        let mut content = Content::default();
        add_archive(&mut content, 0, path)?;
        if content.is_empty() {
            std::fs::remove_file(path).map_err(|source| SetupError::Host { path: path.clone(), source })?;
        }
    }
    Ok(())
}

fn drop_oldest(seeds: &Path) {
    let entries = std::fs::read_dir(seeds).into_iter().flatten().flatten();
    let mut kept: Vec<_> =
        entries.filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()))).collect();
    kept.sort();
    let surplus = kept.len().saturating_sub(MOST_KEPT);
    for (_, path) in kept.into_iter().take(surplus) {
        if let Err(error) = std::fs::remove_dir_all(&path) {
            tracing::warn!(path = %path.display(), %error, "an image's seed stays behind");
        }
    }
}

/// The entries of an archive, judged as hostile: only proper paths, only files, directories and links; everything else
/// is left out.
fn add_archive(content: &mut Content, root: u16, path: &Path) -> Result<(), SetupError> {
    let failed = |source| SetupError::Host { path: path.to_owned(), source };
    let file = Arc::new(File::open(path).map_err(failed)?);
    let mut archive = tar::Archive::new(&*file);
    let mut count = 0usize;
    for entry in archive.entries().map_err(failed)? {
        let entry = entry.map_err(failed)?;
        count += 1;
        if count > MOST_ENTRIES {
            return Err(SetupError::TooMany);
        }
        let Some(place) = proper(&entry.path_bytes()) else { continue };
        let header = entry.header();
        let secs = header.mtime().ok().and_then(|secs| i64::try_from(secs).ok()).unwrap_or(0);
        let link = || entry.link_name_bytes().map(|name| name.into_owned());
        let kind = match header.entry_type() {
            tar::EntryType::Directory => Kind::Dir,
            tar::EntryType::Regular | tar::EntryType::Continuous => Kind::File {
                body: Body::Part { archive: Arc::clone(&file), offset: entry.raw_file_position() },
                size: entry.size(),
            },
            tar::EntryType::Symlink => match link() {
                Some(target) if !target.is_empty() && target.len() <= 4096 => Kind::Symlink { target },
                _ => continue,
            },
            tar::EntryType::Link => match link().and_then(|to| proper(&to)) {
                Some(to) => Kind::Hardlink { to },
                None => continue,
            },
            // Devices, pipes, and what nobody knows.
            _ => continue,
        };
        // Set-id bits would not mean what they meant: the owner is another one.
        let mode = header.mode().unwrap_or(0o644) & 0o777;
        let mode = if matches!(kind, Kind::Dir) { mode | 0o700 } else { mode };
        content.insert(root, place, Node { kind, mode, mtime: TimeNs { secs, nanos: 0 } })?;
    }
    Ok(())
}

/// A path beneath the root, without the leading dot; `None` for the root itself and for what would leave it.
fn proper(path: &[u8]) -> Option<Vec<u8>> {
    let names: Vec<&[u8]> = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".").collect();
    let leaves = path.starts_with(b"/") || names.contains(&&b".."[..]) || path.contains(&0);
    (!leaves && !names.is_empty()).then(|| names.join(&b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(build: impl FnOnce(&mut tar::Builder<Vec<u8>>)) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0.tar");
        let mut builder = tar::Builder::new(Vec::new());
        build(&mut builder);
        std::fs::write(&path, builder.into_inner().unwrap()).unwrap();
        (directory, path)
    }

    fn add(builder: &mut tar::Builder<Vec<u8>>, kind: tar::EntryType, path: &str, link: &str, data: &[u8]) {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(0o4755);
        header.set_size(data.len() as u64);
        // Written by hand: the library refuses to make what a hostile archive holds.
        let name = &mut header.as_old_mut().name;
        name[..path.len()].copy_from_slice(path.as_bytes());
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_cksum();
        builder.append(&header, data).unwrap();
    }

    #[test]
    fn an_archive_gives_files_and_links_and_nothing_outside_the_root() {
        use tar::EntryType::{Block, Directory, Fifo, Link, Regular, Symlink};
        let (_directory, path) = archive(|builder| {
            add(builder, Directory, "./", "", b"");
            add(builder, Regular, "./bin/tool", "", b"12345");
            add(builder, Link, "./bin/same", "./bin/tool", b"");
            add(builder, Symlink, "./link", "/etc/passwd", b"");
            add(builder, Regular, "../escape", "", b"x");
            add(builder, Regular, "/absolute", "", b"x");
            add(builder, Link, "./hard", "../../etc/shadow", b"");
            add(builder, Fifo, "./fifo", "", b"");
            add(builder, Block, "./disk", "", b"");
        });
        let mut content = Content::default();
        add_archive(&mut content, 2, &path).unwrap();
        let names: Vec<String> =
            content.nodes.keys().map(|(_, path)| String::from_utf8_lossy(path).into_owned()).collect();
        assert_eq!(names, ["bin", "bin/same", "bin/tool", "link"]);
        let tool = &content.nodes[&(2, b"bin/tool".to_vec())];
        assert_eq!(tool.mode, 0o755, "set-id bits go");
        let Kind::File { body, size } = &tool.kind else { panic!("{tool:?}") };
        let source = super::super::content::Source::open(body).unwrap();
        assert_eq!(source.read(0, *size).unwrap(), b"12345");
    }

    #[test]
    fn an_archive_that_is_cut_is_an_error() {
        let (_directory, path) = archive(|builder| add(builder, tar::EntryType::Regular, "a", "", &[7; 5000]));
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..600]).unwrap();
        let mut content = Content::default();
        assert!(add_archive(&mut content, 0, &path).is_err());
    }
}
