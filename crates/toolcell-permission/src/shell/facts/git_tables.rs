//! The options of `git`'s subcommands that only read.

use super::options::Grammar;

/// A subcommand that only reads, as long as its options are in its grammar.
#[derive(Debug)]
pub(super) struct Subcommand {
    pub(super) name: &'static str,
    pub(super) grammar: Grammar,
    /// Options of comparisons belong to it.
    pub(super) compares: bool,
    pub(super) rule: Rule,
}

/// What else must hold for it to read only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// Nothing.
    Any,
    /// It names nothing, or one of these options says that what it names is only looked for.
    ListsWith(&'static [&'static str]),
    /// One of these options is there.
    Needs(&'static [&'static str]),
    /// It has at most one operand.
    AtMostOne,
    /// Its first operand is one of these.
    First(&'static [&'static str]),
    /// Its first operand is none of these.
    NotFirst(&'static [&'static str]),
}

const fn row(name: &'static str, rule: Rule, short: &'static str, long: &'static str) -> Subcommand {
    Subcommand { name, grammar: Grammar { short, long }, compares: false, rule }
}

const fn comparing(name: &'static str, short: &'static str, long: &'static str) -> Subcommand {
    Subcommand { name, grammar: Grammar { short, long }, compares: true, rule: Rule::Any }
}

/// Options of comparisons. Without `--output`, `--ext-diff` and `--textconv`, and without `-O`, which reads a file.
pub(super) const COMPARING: Grammar = Grammar {
    short: "puU:wbWaRzM?C?B?DS:G:l:X?s",
    long: "patch no-patch unified: raw stat? numstat shortstat dirstat? cumulative summary name-only name-status color? \
        no-color color-words? color-moved? no-color-moved color-moved-ws: word-diff? word-diff-regex: \
        ignore-all-space ignore-space-change ignore-blank-lines ignore-space-at-eol ignore-cr-at-eol \
        ignore-matching-lines: check full-index binary abbrev? find-renames? find-copies? find-copies-harder \
        no-renames rename-empty diff-filter: minimal patience histogram diff-algorithm: anchored: indent-heuristic \
        patch-with-stat patch-with-raw compact-summary function-context inter-hunk-context: exit-code quiet text \
        relative? no-relative no-ext-diff no-textconv submodule? no-prefix default-prefix src-prefix: dst-prefix: \
        line-prefix: pickaxe-all pickaxe-regex ignore-submodules? stat-width: stat-name-width: stat-count: \
        find-object: irreversible-delete break-rewrites? skip-to: rotate-to: ita-invisible-in-index \
        combined-all-paths dd diff-merges: no-diff-merges cc",
};

const LOG_SHORT: &str = "n:giEFPcmtL:#qvh";
const LOG_LONG: &str = "oneline graph no-graph all branches? tags? remotes? glob: exclude: decorate? no-decorate \
    decorate-refs: decorate-refs-exclude: clear-decorations pretty? format: encoding: expand-tabs? date: since: \
    after: until: before: since-as-filter: author: committer: grep: all-match invert-grep regexp-ignore-case \
    basic-regexp extended-regexp fixed-strings perl-regexp max-count: skip: merges no-merges min-parents: \
    max-parents: first-parent reverse follow left-right left-only right-only cherry-pick cherry-mark cherry \
    date-order topo-order author-date-order no-walk? do-walk full-history dense sparse simplify-merges \
    simplify-by-decoration show-pulls ancestry-path? abbrev-commit no-abbrev-commit no-abbrev parents children boundary \
    walk-reflogs grep-reflog: notes? no-notes source mailmap no-mailmap use-mailmap log-size relative-date merge \
    ignore-missing bisect not single-worktree count timestamp objects full-diff root end-of-options remove-empty";

const TAG_LISTS: &[&str] = &["l", "list", "contains", "no-contains", "merged", "no-merged", "points-at"];
const BRANCH_LISTS: &[&str] = &["list", "contains", "no-contains", "merged", "no-merged", "points-at"];
const CONFIG_READS: &[&str] =
    &["get", "get-all", "get-regexp", "get-urlmatch", "get-color", "get-colorbool", "list", "l"];

/// Sorted by name.
pub(super) const SUBCOMMANDS: &[Subcommand] = &[
    row("annotate", Rule::Any, "lrtfensCM?wL:#", "root show-stats porcelain line-porcelain date: abbrev: since:"),
    row(
        "blame",
        Rule::Any,
        "bcflMnpsetwC?L:",
        "root show-stats porcelain line-porcelain incremental date: abbrev: color-lines color-by-age reverse first-parent ignore-rev: ignore-revs-file< show-email show-name show-number since: score-debug",
    ),
    row(
        "branch",
        Rule::ListsWith(BRANCH_LISTS),
        "avrqi",
        "all remotes verbose list show-current contains? no-contains? merged? no-merged? points-at? sort: format: color? no-color column? no-column abbrev? no-abbrev ignore-case omit-empty",
    ),
    row("cat-file", Rule::Any, "ptse", "allow-unknown-type"),
    row("check-attr", Rule::Any, "az", "all cached stdin source:"),
    row("check-ignore", Rule::Any, "qvnz", "quiet verbose stdin non-matching no-index"),
    row("cherry", Rule::Any, "v", "verbose abbrev?"),
    row(
        "config",
        Rule::Needs(CONFIG_READS),
        "lzf<",
        "get get-all get-regexp get-urlmatch get-color get-colorbool list global system local worktree file< blob: null name-only show-origin show-scope type: bool int path includes no-includes default: fixed-value all show-names regexp",
    ),
    row("count-objects", Rule::Any, "vH", "verbose human-readable"),
    row(
        "describe",
        Rule::Any,
        "",
        "all tags contains abbrev? candidates: exact-match debug long match: exclude: always first-parent dirty? broken?",
    ),
    comparing("diff", "#012q3", "cached staged merge-base no-index base ours theirs"),
    comparing("diff-files", "#0123q", "base ours theirs"),
    comparing("diff-index", "m", "cached merge-base"),
    comparing("diff-tree", "rtmcv", "root stdin merge-base no-commit-id always pretty? format: cc"),
    row(
        "for-each-ref",
        Rule::Any,
        "",
        "count: sort: format: color? points-at: merged? no-merged? contains? no-contains? ignore-case omit-empty exclude: include-root-refs start-after:",
    ),
    row(
        "grep",
        Rule::Any,
        "nHhiIwvEFGPcolLqze:f<A:B:C:W:pam:r#",
        "line-number column files-with-matches files-without-match name-only count only-matching break heading show-function function-context context: after-context: before-context: ignore-case word-regexp invert-match extended-regexp basic-regexp fixed-strings perl-regexp cached untracked no-index no-exclude-standard exclude-standard recurse-submodules and or not all-match quiet color? no-color full-name null max-depth: threads: max-count: text no-textconv recursive",
    ),
    comparing("log", LOG_SHORT, LOG_LONG),
    row(
        "ls-files",
        Rule::Any,
        "cdmosuikztvfx:X<",
        "cached deleted modified others ignored stage unmerged killed directory no-empty-directory exclude: exclude-from< exclude-per-directory: exclude-standard error-unmatch full-name abbrev? debug eol format: deduplicate sparse recurse-submodules resolve-undo",
    ),
    row("ls-tree", Rule::Any, "drtlz", "long name-only name-status object-only full-name full-tree abbrev? format:"),
    row("merge-base", Rule::Any, "a", "all octopus independent is-ancestor fork-point"),
    row("name-rev", Rule::Any, "", "tags all refs: exclude: name-only always no-undefined"),
    comparing("range-diff", "", "creation-factor: no-dual-color left-only right-only no-notes notes?"),
    Subcommand {
        name: "reflog",
        grammar: Grammar { short: LOG_SHORT, long: LOG_LONG },
        compares: true,
        rule: Rule::NotFirst(&["expire", "delete", "drop", "write", "exists"]),
    },
    row("remote", Rule::First(&["get-url"]), "v", "verbose all push"),
    comparing("rev-list", LOG_SHORT, LOG_LONG),
    row(
        "rev-parse",
        Rule::Any,
        "q",
        "show-toplevel show-prefix show-cdup show-superproject-working-tree abbrev-ref? short? verify quiet symbolic symbolic-full-name git-dir git-common-dir absolute-git-dir is-inside-work-tree is-inside-git-dir is-bare-repository is-shallow-repository all branches? tags? remotes? revs-only no-revs flags no-flags default: sq not show-object-format? path-format: git-path: end-of-options show-ref-format",
    ),
    row(
        "shortlog",
        Rule::Any,
        "nsecw?#",
        "numbered summary email committer group: format: since: until: after: before: all no-merges author: max-count: date:",
    ),
    comparing("show", LOG_SHORT, LOG_LONG),
    row("show-ref", Rule::Any, "dqs?", "head heads branches tags dereference hash? verify abbrev? quiet exists"),
    row(
        "status",
        Rule::Any,
        "sbvuzu?",
        "short branch show-stash porcelain? long verbose untracked-files? ignore-submodules? ignored? column? no-column ahead-behind no-ahead-behind renames no-renames find-renames?",
    ),
    row("symbolic-ref", Rule::AtMostOne, "q", "quiet short recurse no-recurse"),
    row(
        "tag",
        Rule::ListsWith(TAG_LISTS),
        "ln?i",
        "list sort: format: contains? no-contains? merged? no-merged? points-at? column? no-column color? ignore-case omit-empty",
    ),
    row("version", Rule::Any, "", "build-options"),
    comparing("whatchanged", LOG_SHORT, LOG_LONG),
    row("worktree", Rule::First(&["list"]), "vz", "porcelain verbose"),
];

/// `git stash list` and `git stash show`.
pub(super) const STASH: &[Subcommand] =
    &[comparing("list", LOG_SHORT, LOG_LONG), comparing("show", "", "include-untracked only-untracked")];

/// The row of a subcommand.
pub(super) fn subcommand(name: &str) -> Option<&'static Subcommand> {
    SUBCOMMANDS.get(SUBCOMMANDS.binary_search_by(|row| row.name.cmp(name)).ok()?)
}
