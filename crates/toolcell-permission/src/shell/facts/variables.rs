//! Names of variables, by what they change.

/// Whether the variable changes how a program speaks, never which code runs or what it touches.
#[must_use]
pub fn is_harmless_variable(name: &str) -> bool {
    match name {
        "LANG"
        | "LANGUAGE"
        | "TZ"
        | "TERM"
        | "COLORTERM"
        | "NO_COLOR"
        | "FORCE_COLOR"
        | "CLICOLOR"
        | "CLICOLOR_FORCE"
        | "CI"
        | "COLUMNS"
        | "LINES"
        | "DEBIAN_FRONTEND"
        | "NODE_ENV"
        | "PYTHONUNBUFFERED"
        | "PYTHONDONTWRITEBYTECODE"
        | "PYTHONIOENCODING"
        | "PYTHONUTF8"
        | "RUST_BACKTRACE"
        | "RUST_LOG"
        | "CARGO_TERM_COLOR"
        | "GTEST_COLOR"
        | "PY_COLORS"
        // Where a program listens, how much it says, and what it builds for.
        | "PORT"
        | "HOST"
        | "DEBUG"
        | "VERBOSE"
        | "LOG_LEVEL"
        | "GOOS"
        | "GOARCH"
        | "CGO_ENABLED"
        | "RAILS_ENV"
        | "RACK_ENV"
        | "APP_ENV" => true,
        // A path in LOCPATH would load files; the categories only name a locale.
        _ => matches!(
            name.strip_prefix("LC_"),
            Some(
                "ALL"
                    | "COLLATE"
                    | "CTYPE"
                    | "MESSAGES"
                    | "MONETARY"
                    | "NUMERIC"
                    | "TIME"
                    | "PAPER"
                    | "NAME"
                    | "ADDRESS"
                    | "TELEPHONE"
                    | "MEASUREMENT"
                    | "IDENTIFICATION"
            )
        ),
    }
}

/// Names by their beginning: the dynamic linker, git, interpreters, package managers, compilers.
const SPECIAL_PREFIXES: &[&str] = &[
    "BASH", "CARGO_", "CMAKE_", "CURL_", "DOCKER_", "DYLD_", "GCC_", "GCONV_", "GIT_", "GREP_", "JAVA_", "JDK_", "LD_",
    "LUA_", "MALLOC_", "NODE_", "NPM_", "npm_", "PERL", "PHP", "PIP_", "PYTHON", "RUBY", "RUSTC", "RUSTUP_", "SSH_",
    "UV_", "YARN_", "XDG_",
];

/// Whether the shell itself or common programs act on the variable in a way that changes what runs, which files are
/// found, or where output goes.
#[must_use]
pub fn is_special_variable(name: &str) -> bool {
    if is_harmless_variable(name) {
        return false;
    }
    matches!(
        name,
        "PATH"
            | "HOME"
            | "IFS"
            | "ENV"
            | "CDPATH"
            | "PS0"
            | "PS1"
            | "PS2"
            | "PS3"
            | "PS4"
            | "PWD"
            | "OLDPWD"
            | "SHELL"
            | "SHELLOPTS"
            | "PROMPT_COMMAND"
            | "FUNCNEST"
            | "GLOBIGNORE"
            | "GLOBSORT"
            | "EXECIGNORE"
            | "FIGNORE"
            | "HISTFILE"
            | "HISTCONTROL"
            | "INPUTRC"
            | "MAIL"
            | "MAILPATH"
            | "MAILCHECK"
            | "OPTIND"
            | "OPTARG"
            | "OPTERR"
            | "POSIXLY_CORRECT"
            | "REPLY"
            | "TMOUT"
            | "TMPDIR"
            | "TMP"
            | "TEMP"
            | "TERMINFO"
            | "TERMINFO_DIRS"
            | "TERMCAP"
            | "USER"
            | "LOGNAME"
            | "UID"
            | "EUID"
            | "PPID"
            | "RANDOM"
            | "SECONDS"
            | "LINENO"
            | "DIRSTACK"
            | "FUNCNAME"
            | "GROUPS"
            | "HOSTNAME"
            | "HOSTFILE"
            | "COMP_WORDBREAKS"
            | "NLSPATH"
            | "LOCPATH"
            | "RESOLV_HOST_CONF"
            | "HOSTALIASES"
            | "GETCONF_DIR"
            | "EDITOR"
            | "VISUAL"
            | "PAGER"
            | "MANPAGER"
            | "MANOPT"
            | "MANPATH"
            | "LESS"
            | "LESSOPEN"
            | "LESSCLOSE"
            | "LESSEDIT"
            | "MORE"
            | "BROWSER"
            | "TAR_OPTIONS"
            | "TAPE"
            | "RSH"
            | "RSYNC_RSH"
            | "RSYNC_OPTIONS"
            | "GZIP"
            | "BZIP2"
            | "BZIP"
            | "XZ_OPT"
            | "XZ_DEFAULTS"
            | "ZSTD_CLEVEL"
            | "ZIPOPT"
            | "UNZIP"
            | "ZIPINFO"
            | "UNZIPOPT"
            | "RIPGREP_CONFIG_PATH"
            | "FD_CONFIG_PATH"
            | "JQ_COLORS"
            | "SED"
            | "AWKPATH"
            | "AWKLIBPATH"
            | "POSIXLY_STRICT"
            | "MAKE"
            | "MAKEFLAGS"
            | "MAKEFILES"
            | "MFLAGS"
            | "GNUMAKEFLAGS"
            | "CC"
            | "CXX"
            | "CPP"
            | "LD"
            | "AR"
            | "AS"
            | "NM"
            | "RANLIB"
            | "GOFLAGS"
            | "GOPATH"
            | "GOROOT"
            | "GOBIN"
            | "GOENV"
            | "GOTOOLCHAIN"
            | "GOPROXY"
            | "GOROOT_FINAL"
            | "GOTOOLDIR"
            | "GOPRIVATE"
            | "GONOSUMDB"
            | "GOCACHE"
            | "GOMODCACHE"
            | "CFLAGS"
            | "CXXFLAGS"
            | "CPPFLAGS"
            | "LDFLAGS"
            | "CPATH"
            | "C_INCLUDE_PATH"
            | "CPLUS_INCLUDE_PATH"
            | "COMPILER_PATH"
            | "LIBRARY_PATH"
            | "PKG_CONFIG"
            | "PKG_CONFIG_PATH"
            | "CLASSPATH"
            | "_JAVA_OPTIONS"
            | "MAVEN_OPTS"
            | "MAVEN_ARGS"
            | "GRADLE_OPTS"
            | "GRADLE_USER_HOME"
            | "GEM_HOME"
            | "GEM_PATH"
            | "BUNDLE_GEMFILE"
            | "BUNDLE_PATH"
            | "VIRTUAL_ENV"
            | "CONDA_PREFIX"
            | "DENO_DIR"
            | "BUN_INSTALL"
            | "KUBECONFIG"
            | "AWS_CONFIG_FILE"
            | "AWS_SHARED_CREDENTIALS_FILE"
            | "NETRC"
            | "WGETRC"
            | "SYSTEM_WGETRC"
            | "OPENSSL_CONF"
            | "OPENSSL_ENGINES"
            | "OPENSSL_MODULES"
            | "SSLKEYLOGFILE"
            | "GNUPGHOME"
            | "VIMINIT"
            | "EXINIT"
            | "VIM"
            | "VIMRUNTIME"
            | "NVIM_APPNAME"
            | "EMACSLOADPATH"
            | "TMUX"
            | "TMUX_TMPDIR"
            | "SCREENRC"
            | "SUDO_ASKPASS"
            | "SUDO_EDITOR"
            | "PROCPS_USERLEN"
            | "PS_FORMAT"
            | "PS_PERSONALITY"
            | "TIME"
            | "TREE_COLORS"
            | "http_proxy"
            | "https_proxy"
            | "all_proxy"
            | "HTTP_PROXY"
            | "HTTPS_PROXY"
            | "ALL_PROXY"
            | "R_PROFILE"
            | "R_ENVIRON"
            | "JULIA_LOAD_PATH"
            | "JULIA_PROJECT"
            | "EDITRC"
            | "GDBHISTFILE"
            | "DEBUGINFOD_URLS"
            | "_"
    ) || SPECIAL_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harmless_and_special_names() {
        for name in ["LANG", "LC_ALL", "TZ", "TERM", "NO_COLOR", "CI", "NODE_ENV", "PYTHONUNBUFFERED", "RUST_BACKTRACE"]
        {
            assert!(is_harmless_variable(name) && !is_special_variable(name), "{name}");
        }
        for name in [
            "PATH",
            "LD_PRELOAD",
            "GIT_DIR",
            "GIT_EXTERNAL_DIFF",
            "BASH_ENV",
            "ENV",
            "IFS",
            "PYTHONPATH",
            "PYTHONSTARTUP",
            "NODE_OPTIONS",
            "HOME",
            "CDPATH",
            "PS4",
            "NODE_PATH",
            "PERL5OPT",
            "RUBYOPT",
            "LESSOPEN",
            "RIPGREP_CONFIG_PATH",
            "TAR_OPTIONS",
            "MAKEFLAGS",
            "CARGO_HOME",
            "RUSTC_WRAPPER",
            "GOFLAGS",
            "npm_config_x",
        ] {
            assert!(is_special_variable(name) && !is_harmless_variable(name), "{name}");
        }
        for name in ["x", "FOO", "lang", "LC_", "LC_X", "path", "files", "i", "MYPATH"] {
            assert!(!is_special_variable(name) && !is_harmless_variable(name), "{name}");
        }
    }
}
