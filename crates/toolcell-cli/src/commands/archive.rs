//! `toolcell snapshots export` and `import`: archives go to and come from files, piece by piece.

use super::which::{Names, Operator, print_json};
use crate::cli::{ExportArgs, ImportArgs};
use crate::failure::Failure;
use crate::progress;
use crate::table::{bytes, cell};
use futures_util::stream;
use hyper::{Method, header};
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use toolcell_server::Body;

/// What is read of an archive's file at once.
const PIECE_BYTES: usize = 256 * 1024;

fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

fn is_compressed(path: &Path) -> bool {
    path.extension().and_then(OsStr::to_str).is_some_and(|end| end == "zst" || end == "tzst")
}

pub(crate) async fn export(operator: &Operator, args: &ExportArgs, names: &Names) -> Result<ExitCode, Failure> {
    let ExportArgs { which, output, force } = args;
    if !is_standard(output) && !force && output.symlink_metadata().is_ok() {
        return Err(exists(output));
    }
    let slot = operator.slot(which, names, false).await?;
    let snapshot = names.snapshot.as_ref().map(|snapshot| format!("?snapshot={snapshot}")).unwrap_or_default();
    let path = format!("/v1/slots/{slot}/archive{snapshot}");
    let coding = [(header::ACCEPT_ENCODING, "zstd")];
    let headers = if is_compressed(output) { &coding[..] } else { &[] };
    let received = Arc::new(AtomicU64::new(0));
    let work = async {
        let mut answer = operator.server.send(Method::GET, &path, headers, Body::empty()).await?;
        if !answer.is_success() {
            return answer.json().await.map(drop);
        }
        let mut target = Target::create(output, *force)?;
        while let Some(piece) = answer.piece().await? {
            target.write(&piece)?;
            received.fetch_add(piece.len() as u64, Ordering::Relaxed);
        }
        target.finish()
    };
    let shown = async || Some(format!("exporting, {} written", bytes(received.load(Ordering::Relaxed))));
    progress::while_waiting(work, shown).await?;
    Ok(ExitCode::SUCCESS)
}

fn exists(path: &Path) -> Failure {
    Failure::new("the archive was not written", format!("{} is there already", path.display()))
        .hint("--force replaces it")
}

/// Where an archive goes: beside its name, and under it only when it is whole.
enum Target {
    Standard,
    File { file: std::fs::File, temporary: PathBuf, path: PathBuf, force: bool, done: bool },
}

impl Target {
    fn create(path: &Path, force: bool) -> Result<Self, Failure> {
        if is_standard(path) {
            return Ok(Self::Standard);
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let temporary = path.with_file_name(format!(".{name}.{}.part", std::process::id()));
        let file = std::fs::File::options().write(true).create_new(true).open(&temporary);
        let file = file.map_err(|error| failed(&temporary, &error))?;
        Ok(Self::File { file, temporary, path: path.to_owned(), force, done: false })
    }

    fn write(&mut self, piece: &[u8]) -> Result<(), Failure> {
        match self {
            Self::Standard => {
                let mut out = std::io::stdout().lock();
                out.write_all(piece).map_err(|error| Failure::of("standard output cannot be written", &error))
            }
            Self::File { file, temporary, .. } => file.write_all(piece).map_err(|error| failed(temporary, &error)),
        }
    }

    fn finish(mut self) -> Result<(), Failure> {
        match &mut self {
            Self::Standard => {
                std::io::stdout().flush().map_err(|error| Failure::of("standard output cannot be written", &error))
            }
            Self::File { file, temporary, path, force, done } => {
                file.sync_all().map_err(|error| failed(temporary, &error))?;
                if *force {
                    std::fs::rename(&*temporary, &*path).map_err(|error| failed(path, &error))?;
                    *done = true;
                    return Ok(());
                }
                // A link replaces nothing that has come meanwhile.
                match std::fs::hard_link(&*temporary, &*path) {
                    Ok(()) => Ok(()),
                    Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Err(exists(path)),
                    Err(error) => Err(failed(path, &error)),
                }
            }
        }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if let Self::File { temporary, done: false, .. } = self {
            // What cannot be removed has a name that says what it is.
            let _ = std::fs::remove_file(temporary);
        }
    }
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new("the archive was not written", format!("{}: {error}", path.display()))
}

pub(crate) async fn import(operator: &Operator, args: &ImportArgs, names: &Names) -> Result<ExitCode, Failure> {
    let ImportArgs { which, input } = args;
    if let Some(snapshot) = &names.snapshot {
        let why = format!("{snapshot} is what is there; an import makes a new snapshot");
        return Err(Failure::new("a snapshot cannot be imported into", why));
    }
    let unreadable =
        |error: &std::io::Error| Failure::new("the archive cannot be read", format!("{}: {error}", input.display()));
    let file: Box<dyn Read + Send> = if is_standard(input) {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(input).map_err(|error| unreadable(&error))?)
    };
    let slot = operator.slot(which, names, true).await?;
    let sent = Arc::new(AtomicU64::new(0));
    let body = Body::from_stream(pieces(file, Arc::clone(&sent)));
    let coding = [(header::CONTENT_ENCODING, "zstd")];
    let headers = if is_compressed(input) { &coding[..] } else { &[] };
    let path = format!("/v1/slots/{slot}/archive");
    let work = async { operator.server.send(Method::PUT, &path, headers, body).await?.json().await };
    let shown = async || Some(format!("importing, {} read", bytes(sent.load(Ordering::Relaxed))));
    let imported = progress::while_waiting(work, shown).await?;
    if which.json {
        print_json(&imported);
    } else {
        println!("{}", cell(&imported, "/snapshot"));
    }
    Ok(ExitCode::SUCCESS)
}

/// A reader's content, read on threads that may wait.
fn pieces(
    from: Box<dyn Read + Send>,
    sent: Arc<AtomicU64>,
) -> impl futures_util::Stream<Item = std::io::Result<Vec<u8>>> + Send {
    stream::unfold(Some(from), move |from| {
        let sent = Arc::clone(&sent);
        async move {
            let mut from = from?;
            let read = tokio::task::spawn_blocking(move || {
                let mut piece = vec![0; PIECE_BYTES];
                let read = from.read(&mut piece);
                (
                    from,
                    read.map(|count| {
                        piece.truncate(count);
                        piece
                    }),
                )
            });
            match read.await {
                Ok((_, Ok(piece))) if piece.is_empty() => None,
                Ok((from, Ok(piece))) => {
                    sent.fetch_add(piece.len() as u64, Ordering::Relaxed);
                    Some((Ok(piece), Some(from)))
                }
                Ok((_, Err(error))) => Some((Err(error), None)),
                Err(error) => Some((Err(std::io::Error::other(error)), None)),
            }
        }
    })
}
