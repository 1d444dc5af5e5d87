//! The table of programs that only read.

use super::options::Grammar;

/// What a program's operands are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operands {
    /// There are none.
    None,
    /// Not paths.
    Data,
    /// Files that are read.
    Files,
    /// One file; a second one would be written.
    OneFile,
    /// Files or directories, the working directory if there is none.
    Tree,
    /// A pattern, unless an option holds it, then files or directories.
    Pattern,
    /// As `Pattern`, and where no file is named the working directory is searched.
    PatternTree,
    /// Formats beginning with `+`.
    Format,
}

/// A program that only reads, as long as its options are in its grammar and none of them is marked as harmful.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) name: &'static str,
    pub(super) grammar: Grammar,
    pub(super) operands: Operands,
    /// No option of the program does harm, so a glob may give words that are options.
    pub(super) any_glob: bool,
}

const fn safe(name: &'static str, operands: Operands, short: &'static str, long: &'static str) -> Reader {
    Reader { name, grammar: Grammar { short, long }, operands, any_glob: true }
}

/// Some option of the program, listed or not, writes or runs something.
const fn wary(name: &'static str, operands: Operands, short: &'static str, long: &'static str) -> Reader {
    Reader { name, grammar: Grammar { short, long }, operands, any_glob: false }
}

use Operands::{Data, Files, Format, None as Nothing, OneFile, Pattern, PatternTree, Tree};

const GREP_SHORT: &str = "EFGPe:f<ivwxcLlm:oqsbHhnTuUZzA:B:C:ad:D:rR#yI";
const GREP_LONG: &str = "extended-regexp fixed-strings basic-regexp perl-regexp regexp: file< ignore-case \
    no-ignore-case invert-match word-regexp line-regexp count color? colour? files-without-match files-with-matches \
    max-count: only-matching quiet silent no-messages byte-offset with-filename no-filename label: line-number \
    initial-tab unix-byte-offsets null after-context: before-context: context: text binary-files: devices: \
    directories: exclude: exclude-from< exclude-dir: include: recursive dereference-recursive line-buffered binary \
    null-data help version";
const DIGEST_SHORT: &str = "bctzw";
const DIGEST_LONG: &str = "binary check tag text zero ignore-missing quiet status strict warn help version";

/// Sorted by name.
pub(super) const READERS: &[Reader] = &[
    safe("arch", Nothing, "", "help version"),
    safe("b2sum", Files, "bctzwl:", DIGEST_LONG),
    safe("base32", Files, "diw:", "decode ignore-garbage wrap: help version"),
    safe("base64", Files, "diw:D", "decode ignore-garbage wrap: help version"),
    safe("basename", Data, "as:z", "multiple suffix: zero help version"),
    safe("bzcat", Files, "sv", "small verbose"),
    safe("cal", Data, "13jmsyYwnA:B:", "help version"),
    safe(
        "cat",
        Files,
        "AbeEnstTuv",
        "show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting help version",
    ),
    safe("cksum", Files, "a:", "algorithm: check tag untagged zero help version"),
    safe("cmp", Files, "bi:ln:s", "print-bytes ignore-initial: verbose bytes: quiet silent help version"),
    safe(
        "column",
        Files,
        "tns:o:c:xJN:R:H:T:r:i:p:deL",
        "table separator: output-separator: output-width: json table-columns: table-right: keep-empty-lines help version",
    ),
    safe("comm", Files, "123z", "check-order nocheck-order output-delimiter: total zero-terminated help version"),
    safe(
        "cut",
        Files,
        "b:c:d:f:nsz",
        "bytes: characters: delimiter: fields: complement only-delimited output-delimiter: zero-terminated help version",
    ),
    wary(
        "date",
        Format,
        "d:f<r<uRI?",
        "date: file< reference< utc universal rfc-email iso-8601? rfc-3339: debug help version",
    ),
    safe(
        "df",
        Files,
        "aBhHiklPTt:x:",
        "all block-size: human-readable si inodes local no-sync output? portability total type: print-type exclude-type: help version",
    ),
    safe(
        "diff",
        Files,
        "qscC:uU:eynW:pF:tTrNx:X<S:iEZbwBI:aD:d#",
        "normal brief report-identical-files context? unified? ed rcs side-by-side width: left-column suppress-common-lines show-c-function show-function-line: label: expand-tabs initial-tab tabsize: recursive no-dereference new-file unidirectional-new-file ignore-file-name-case exclude: exclude-from< starting-file: from-file< to-file< ignore-case ignore-tab-expansion ignore-trailing-space ignore-space-change ignore-all-space ignore-blank-lines ignore-matching-lines: text strip-trailing-cr minimal horizon-lines: speed-large-files color? palette: help version",
    ),
    safe("dirname", Data, "z", "zero help version"),
    safe(
        "du",
        Tree,
        "0aBbcDd:hHklLmPSst:xX<",
        "null all apparent-size block-size: bytes total dereference-args max-depth: human-readable inodes count-links dereference no-dereference separate-dirs si summarize threshold: time? time-style: exclude-from< exclude: one-file-system help version",
    ),
    safe("egrep", Pattern, GREP_SHORT, GREP_LONG),
    safe("expand", Files, "it:", "initial tabs: help version"),
    wary(
        "fd",
        PatternTree,
        "HIusigaFlLp0d:t:e:S:E:c:qj:1",
        "hidden no-ignore no-ignore-vcs unrestricted case-sensitive ignore-case glob regex fixed-strings absolute-path list-details follow full-path print0 max-depth: min-depth: exact-depth: type: extension: size: changed-within: changed-before: exclude: color: max-results: quiet threads: prune owner: strip-cwd-prefix show-errors one-file-system search-path< help version",
    ),
    wary(
        "fdfind",
        PatternTree,
        "HIusigaFlLp0d:t:e:S:E:c:qj:1",
        "hidden no-ignore no-ignore-vcs unrestricted case-sensitive ignore-case glob regex fixed-strings absolute-path list-details follow full-path print0 max-depth: min-depth: exact-depth: type: extension: size: changed-within: changed-before: exclude: color: max-results: quiet threads: prune owner: strip-cwd-prefix show-errors one-file-system search-path< help version",
    ),
    safe("fgrep", Pattern, GREP_SHORT, GREP_LONG),
    wary(
        "file",
        Files,
        "bdiIEF:f<hkLNnprs0",
        "brief mime mime-type mime-encoding separator: files-from< no-dereference keep-going dereference no-pad no-buffer preserve-date raw special-files print0 extension help version",
    ),
    safe(
        "fmt",
        Files,
        "ctsuw:p:g:#",
        "crown-margin tagged-paragraph split-only uniform-spacing width: prefix: goal: help version",
    ),
    safe("fold", Files, "bsw:#", "bytes spaces width: help version"),
    safe(
        "free",
        Nothing,
        "bkmghltwvc:s:",
        "bytes kilo mega giga tebi human si lohi total wide seconds: count: help version",
    ),
    safe("getconf", Data, "a", ""),
    safe("grep", Pattern, GREP_SHORT, GREP_LONG),
    safe("groups", Data, "", "help version"),
    safe("head", Files, "c:n:qvz#", "bytes: lines: quiet silent verbose zero-terminated help version"),
    safe(
        "hexdump",
        Files,
        "bcCde:f<n:os:vx",
        "one-byte-octal one-byte-char canonical two-bytes-decimal format: format-file< length: two-bytes-octal skip: no-squeezing two-bytes-hex help version",
    ),
    wary(
        "hostname",
        Nothing,
        "fiIsdaAy",
        "fqdn long ip-address all-ip-addresses short domain alias all-fqdns help version",
    ),
    safe("id", Data, "aGgnruzZ", "group groups name real user zero help version"),
    safe(
        "join",
        Files,
        "a:e:i1:2:j:o:t:v:z",
        "ignore-case check-order nocheck-order header zero-terminated help version",
    ),
    safe("locale", Data, "amckv", "all-locales charmaps category-name keyword-name verbose help version"),
    safe(
        "ls",
        Tree,
        "1aAbBcCdDfFgGhHiI:klLmnNopqQrRsStT:uUvw:xXZ",
        "all almost-all author escape block-size: ignore-backups color? directory dired classify? file-type format: full-time group-directories-first no-group human-readable si dereference-command-line dereference-command-line-symlink-to-dir hide: hyperlink? indicator-style: inode ignore: kibibytes dereference numeric-uid-gid literal hide-control-chars show-control-chars quote-name quoting-style: reverse recursive size sort: time: time-style: tabsize: width: context zero help version",
    ),
    safe(
        "lsblk",
        Files,
        "aAbdfilmnprStJo:I:e:x:POTsyz",
        "all bytes nodeps fs list json output: output-all paths raw noheadings perms topology tree? pairs inverse scsi size help version",
    ),
    safe(
        "lscpu",
        Nothing,
        "aJbcxye?p?",
        "all json bytes caches? online offline extended? parse? hex physical output-all help version",
    ),
    safe("md5sum", Files, DIGEST_SHORT, DIGEST_LONG),
    safe(
        "nl",
        Files,
        "b:d:f:h:i:l:n:ps:v:w:",
        "body-numbering: section-delimiter: footer-numbering: header-numbering: line-increment: join-blank-lines: number-format: no-renumber number-separator: starting-line-number: number-width: help version",
    ),
    safe("nproc", Nothing, "", "all ignore: help version"),
    safe(
        "od",
        Files,
        "A:j:N:S:t:vw?abcdDefFhHiIlLoOsxX",
        "address-radix: skip-bytes: read-bytes: strings? format: output-duplicates width? traditional help version",
    ),
    safe("paste", Files, "d:sz", "delimiters: serial zero-terminated help version"),
    safe(
        "pgrep",
        Data,
        "acd:flF<g:G:inoP:s:t:u:U:vwx",
        "count delimiter: full list-name list-full pidfile< pgroup: group: ignore-case newest oldest parent: session: terminal: euid: uid: inverse exact help version",
    ),
    safe("printenv", Data, "0", "null help version"),
    safe(
        "ps",
        Data,
        "aAdefFjlLNHTVwyCMxucp:o:O:u:U:t:g:G:s:q:",
        "no-headers headers forest sort: pid: ppid: user: User: group: format: cols: columns: rows: width: deselect help version",
    ),
    safe("pwd", Nothing, "LP", "logical physical help version"),
    safe(
        "readlink",
        Files,
        "femnqsvz",
        "canonicalize canonicalize-existing canonicalize-missing no-newline quiet silent verbose zero help version",
    ),
    safe(
        "realpath",
        Files,
        "eLmPqsz",
        "canonicalize-existing canonicalize-missing logical physical quiet relative-to< relative-base< strip no-symlinks zero help version",
    ),
    safe("rev", Files, "0", "zero help version"),
    wary(
        "rg",
        PatternTree,
        "A:B:C:ce:E:f<FhHiIj:lLm:M:nNopPqr:sSt:T:uUvVwxg:.0ad:",
        "after-context: before-context: context: count count-matches color: colors: column no-column regexp: encoding: file< files fixed-strings follow glob: iglob: heading no-heading hidden no-hidden ignore-case ignore-file< invert-match json line-number no-line-number line-regexp max-columns: max-columns-preview max-count: max-depth: max-filesize: multiline multiline-dotall no-config no-ignore no-ignore-vcs no-ignore-parent no-ignore-dot no-messages null null-data only-matching passthru pcre2 pretty quiet replace: smart-case case-sensitive sort: sortr: stats text threads: trim type: type-not: type-list type-add: unrestricted vimgrep with-filename no-filename files-with-matches files-without-match word-regexp crlf engine: one-file-system binary block-buffered line-buffered context-separator: path-separator: include-zero no-require-git help version",
    ),
    safe("seq", Data, "f:s:w#", "format: separator: equal-width help version"),
    safe("sha1sum", Files, DIGEST_SHORT, DIGEST_LONG),
    safe("sha224sum", Files, DIGEST_SHORT, DIGEST_LONG),
    safe("sha256sum", Files, DIGEST_SHORT, DIGEST_LONG),
    safe("sha384sum", Files, DIGEST_SHORT, DIGEST_LONG),
    safe("sha512sum", Files, DIGEST_SHORT, DIGEST_LONG),
    safe("sleep", Data, "", "help version"),
    wary(
        "sort",
        Files,
        "bcCdfghiMnrRVsuzmk:t:S:o>!T>!",
        "ignore-leading-blanks check? dictionary-order ignore-case general-numeric-sort human-numeric-sort ignore-nonprinting month-sort numeric-sort random-sort reverse sort: version-sort stable unique zero-terminated merge key: field-separator: buffer-size: parallel: batch-size: random-source< files0-from< output>! temporary-directory>! compress-program:! debug help version",
    ),
    safe("stat", Files, "Lfc:t", "dereference file-system cached: format: printf: terse help version"),
    safe(
        "strings",
        Files,
        "afn:ot:e:ws:dT:#",
        "all data print-file-name bytes: radix: encoding: include-all-whitespace output-separator: target: help version",
    ),
    safe("tac", Files, "brs:", "before regex separator: help version"),
    safe(
        "tail",
        Files,
        "c:fFn:qs:vz#",
        "bytes: follow? lines: max-unchanged-stats: pid: quiet silent retry sleep-interval: verbose zero-terminated help version",
    ),
    safe("tr", Data, "cCdst", "complement delete squeeze-repeats truncate-set1 help version"),
    wary(
        "tree",
        Tree,
        "-aAcCdDfFghiIJlnNpqQrsStuUvxXP:I:L:o>!R!H:!",
        "all dirsfirst filelimit: filesfirst gitignore gitfile< ignore-case inodes device du si matchdirs metafirst noreport prune sort: timefmt: fromfile! fflinks help version",
    ),
    safe("tty", Nothing, "s", "silent quiet help version"),
    safe("type", Data, "afptP", ""),
    safe(
        "uname",
        Nothing,
        "asnrvmpio",
        "all kernel-name nodename kernel-release kernel-version machine processor hardware-platform operating-system help version",
    ),
    safe("unexpand", Files, "at:", "all first-only tabs: help version"),
    wary(
        "uniq",
        OneFile,
        "cdDf:is:uw:z",
        "count repeated all-repeated? skip-fields: group? ignore-case skip-chars: unique zero-terminated check-chars: help version",
    ),
    safe("uptime", Nothing, "ps", "pretty since help version"),
    safe("wc", Files, "cmlLw", "bytes chars lines files0-from< max-line-length words total: help version"),
    safe("whereis", Data, "bms", ""),
    safe("which", Data, "as", "all"),
    safe("whoami", Nothing, "", "help version"),
    safe("xzcat", Files, "qv", "quiet verbose"),
    safe("zcat", Files, "qv", "quiet verbose"),
    wary("zgrep", Pattern, "ivwxclLnHhoqsEFPe:A:B:C:m:", ""),
    safe("zipinfo", Files, "1lmsvhtT", ""),
    wary("zstdcat", Files, "qv", "quiet verbose"),
];

/// The row of a program.
pub(super) fn reader(program: &str) -> Option<&'static Reader> {
    let at = READERS.binary_search_by(|reader| reader.name.cmp(program)).ok()?;
    READERS.get(at)
}
