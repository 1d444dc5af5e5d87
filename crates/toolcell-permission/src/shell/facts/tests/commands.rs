//! Which calls read, which edit, which launch.

use super::{facts, kind};

fn check(expected: &str, lines: &str) {
    let wrong: Vec<String> = lines
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .filter_map(|line| {
            let got = kind(&facts(line));
            (got != expected).then(|| format!("{line}: {got}, not {expected}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn tables_are_sorted() {
    let names: Vec<_> = super::super::readers::READERS.iter().map(|row| row.name).collect();
    assert!(names.is_sorted(), "{:?}", names.windows(2).find(|pair| pair[0] >= pair[1]));
    let names: Vec<_> = super::super::git_tables::SUBCOMMANDS.iter().map(|row| row.name).collect();
    assert!(names.is_sorted(), "{:?}", names.windows(2).find(|pair| pair[0] >= pair[1]));
}

#[test]
fn reading() {
    check(
        "R",
        "ls
        ls -la
        ls -l -a --color=auto src
        ls --help
        ls g:*.py
        ls g:*
        ls -- g:*
        cat a.txt b.txt
        cat -n a
        cat -
        head -5 a
        head -n 5 a
        head -n5 a
        head --lines=5 a
        tail -20 log
        tail -f log
        tail -n +3 a
        wc -l g:*.rs
        wc -lc a
        grep -rn TODO src
        grep -r x .
        grep -e a -e b file
        grep -A3 -B 2 x y
        grep --include=*.py -r foo .
        grep g:--include=*.py -r foo .
        grep -5 x y
        egrep a|b c
        fgrep -q a b
        rg -n TODO src
        rg x
        rg -g *.rs foo
        rg --type rust -A 2 foo src
        rg --files
        find
        find .
        find . -name *.py
        find src -type f -newer ref -print0
        find . ( -name a -o -name b ) -prune -o -print
        find . -maxdepth 2 -printf %p
        find -L . -size +1M -ls
        find . -name g:t*.py
        fd foo src
        fd -e rs
        fd -t f -H foo
        sed -n 1,5p a.txt
        sed -n $p a
        sed -n /a/,/b/p a
        sed -n -e 1p -e 3p a
        sed s/a/b/ f
        sed s/a/b/gi f
        sed -E s/(a)/\\1/g f
        sed s|a|b| f
        sed 1d;2d f
        sed $!d f
        sed -n /x/{p;q} f
        sed -n /x/{=;p} f
        sed y/abc/def/ f
        sed 1~2d f
        sed 0,/x/d f
        sed -n 2q f
        sed s/[[:space:]]*$// f
        sed s/[^a-z]//g f
        sed -e :a -e s/x/y/;ta f
        sed --version
        sort -u a
        sort -k2,2n -t, a
        sort -rn src/a
        sort g:src/*.txt
        sort -- g:*
        uniq -c a
        uniq
        cut -d, -f1 a
        cut -d: -f 1,2 /etc/passwd
        tr a-z A-Z
        tr -d x
        nl a
        tac a
        rev a
        paste a b
        join a b
        comm -12 a b
        diff -u a b
        diff -ru a b
        cmp a b
        stat -c %s a
        file a
        df -h
        du -sh .
        du -sh g:*
        tree
        tree -L 2
        tree -a -I node§modules src
        which git node
        whereis ls
        type -a ls
        command -v git
        command -V git
        id -un
        whoami
        groups
        pwd
        pwd -P
        echo hello
        echo u:$x m: g:*
        echo -n -e x
        printf %s x
        printf %s§n u:
        printf %d%%n 5
        true
        false
        : x u:
        test -f a
        test -n x
        test a = b
        [ -f a ]
        [ -d a -a -r b ]
        [ a = b ]
        [ u: = y ]
        [ -z u: ]
        [ -n u: ]
        [ u: -gt 3 ]
        [ ! -e a ]
        [ -v name ]
        [ ( a = b ) -o -f c ]
        [ ]
        test
        date
        date +%s
        date -u +%F
        date g:+*
        date -d yesterday +%F
        date --iso-8601=seconds
        uname -a
        hostname
        hostname -f
        nproc
        uptime
        free -h
        ps aux
        ps -ef
        pgrep -fl node
        env
        printenv PATH
        basename a/b .c
        dirname a/b
        realpath a
        readlink -f a
        seq 1 10
        seq u: 10
        sleep 1
        sleep u:
        md5sum a
        sha256sum -c sums
        sha256sum g:*
        sha512sum a
        b2sum a
        cksum a
        xxd a
        xxd -l 64 -p a
        xxd -s -16 a
        od -c a
        od -An -tx1 a
        hexdump -C a
        strings a
        column -t -s, a
        fold -w 80 a
        fmt -w 72 a
        expand a
        unexpand a
        jq . a.json
        jq -r .x a.json
        jq -r --arg a b .x[$a] f
        jq -n {}
        yq .a b.yaml
        yq eval .a b.yaml
        yq -o json . b.yaml
        tar tf a.tar
        tar -tf a.tar
        tar -tvf a.tar
        tar tzf a.tgz
        tar tvf a.tar sub/dir
        tar --list --file=a.tar
        tar --list -f a.tar
        unzip -l a.zip
        zipinfo a.zip
        gzip -l a.gz
        gzip -tv a.gz
        zcat a.gz
        zgrep x a.gz
        bzcat a
        xzcat a
        locale
        getconf PAGE§SIZE
        tty
        arch
        lscpu
        lsblk
        cal
        base64 -d a
        cd src
        cd
        cd -
        cd -- src
        cd /
        exit
        exit 1
        exit u:
        return u:
        break
        continue 2
        shift
        set -e
        set -eu
        set -euo pipefail
        set -o pipefail
        set +x
        wait
        wait %1 22
        times
        umask
        umask -S
        ulimit -a
        ulimit -n
        dirs -v
        jobs -l
        npm ls
        npm ls --depth=0
        npm list -g
        pip list
        pip show x
        pip3 freeze
        dpkg -l
        dpkg -L bash
        apt-cache policy git
        apt list --installed
        go env GOPATH
        go version
        python3 --version
        python3 -V
        python3.12 --version
        node -v
        node --version
        npm -v
        npm --version
        cargo -V
        cargo --version
        rustc --version
        java -version
        gcc --version
        make --version
        docker --version
        kubectl --version
        vim --version
        bash --version",
    );
}

#[test]
fn git_that_reads() {
    check(
        "R",
        "git status
        git status -sb
        git status --porcelain=v2 --branch
        git diff
        git diff --cached
        git diff --stat HEAD~1
        git diff --name-only main...dev
        git diff -U3 -w -- a b
        git diff -M90% a
        git diff --word-diff=color
        git diff --no-index a b
        git log
        git log --oneline -5
        git log -n 5 --graph --all --decorate
        git log -n5 --pretty=format:%h_%s
        git log --since=yesterday --author x --stat -p
        git log -S foo -- src
        git log -Sfoo
        git log -L 1,5:a.c
        git log --follow -- a
        git show
        git show HEAD:a.txt
        git show --name-status HEAD
        git show --stat --format=%H abc
        git branch
        git branch -a
        git branch -vv
        git branch --list
        git branch --list feature
        git branch -r
        git branch --show-current
        git branch --contains abc
        git branch --merged main
        git branch --sort=-committerdate
        git tag
        git tag -l
        git tag -l v1
        git tag --list
        git tag -n5
        git tag --contains abc
        git remote
        git remote -v
        git remote get-url origin
        git rev-parse HEAD
        git rev-parse --show-toplevel
        git rev-parse --abbrev-ref HEAD
        git rev-parse --short=8 HEAD
        git rev-list --count HEAD
        git ls-files
        git ls-files -o --exclude-standard
        git ls-tree -r HEAD
        git blame -L 1,5 a
        git describe --tags --always
        git shortlog -sn
        git shortlog -sne HEAD
        git cat-file -p HEAD
        git cat-file -t abc
        git config --get user.name
        git config --list
        git config -l
        git config --global --get user.email
        git config get user.name
        git config list
        git grep -n foo
        git grep foo -- src
        git stash list
        git stash show -p stash@{0}
        git reflog
        git reflog show HEAD
        git reflog -5
        git name-rev HEAD
        git merge-base a b
        git merge-base --is-ancestor a b
        git for-each-ref --format=%(refname) refs/heads
        git worktree list
        git count-objects -vH
        git version
        git --version
        git whatchanged -2
        git range-diff a...b
        git cherry -v main
        git diff-tree -r HEAD
        git diff-index --cached HEAD
        git diff-files
        git check-ignore -v a
        git check-attr -a a
        git symbolic-ref HEAD
        git symbolic-ref --short HEAD
        git show-ref --heads
        git -C src status
        git --no-pager log
        git -P --no-optional-locks diff
        git --no-pager -C /workspace/x diff --stat",
    );
}

#[test]
fn neither() {
    check(
        "-",
        "ls --colo
        ls --al
        ls u:
        ls m:
        ls m:a
        cat u:src/
        cat --sho a
        ls -o/x --zzz
        head --line=5 a
        cat u:-
        cat m:
        /bin/ls
        ./ls
        sort -o out in
        sort -oout in
        sort -uo out in
        sort --output=out in
        sort --outp=out in
        sort -T /etc a
        sort g:*
        sort g:-*
        sort u:
        uniq a b
        uniq g:*
        uniq g:a*
        uniq -c a b
        xxd -r a
        xxd a b
        xxd -revert a
        xxd -ps a b
        xxd -ps u:
        xxd -c 4 -r a
        xxd g:a*
        tree -o out
        tree -Lo 2 out
        tree -L2o out
        tree -R
        tree g:*
        yq -i .a=1 b.yaml
        yq --inplace .a=1 b.yaml
        yq -Pi . b
        yq load(\"x\") b
        yq -s .a b
        date -s 2020-01-01
        date --set=2020-01-01
        date 010100002020
        date -us x
        hostname new
        hostname -F f
        printf -v PATH x
        printf -vPATH x
        printf u: x
        printf
        printf %n x
        printf %5.2n x
        printf %ln x
        [ -v a[0] ]
        [ -v u: ]
        [ u: ]x
        [ u: name ]
        [ m: = x ]
        [ -f u: ]
        [ -f g:* ]
        [ a -a u: = b ]
        test -R x
        test -f a b
        [ -f a
        test -v x -o a[0]
        env -S x
        env A=1 ls
        env -i
        command ls
        command u:
        set
        set -- a b
        set -f
        set -o posix
        set -o
        umask 022
        ulimit -n 100
        wait -p x
        wait u:
        hash -r
        jobs -x ls
        dirs -c
        exit m:
        break u:
        shift x
        cd u:
        cd a b
        cd g:a*
        cd m:
        export A=1
        read x
        let x=1
        pushd x
        popd
        file -C -m x
        mount
        more/a
        npm view x
        npm outdated
        pip list --outdated
        pip list -o
        go list
        docker ps
        kubectl get pods
        python3x --version x
        git2
        gcc -V
        ls --version=x
        zcat -S x
        gzip a
        gzip -k a
        gzip -lk a
        unzip a.zip
        unzip -l a.zip -d x
        unzip -l
        jq --arg a u: . f
        jq -f
        jq --zzz . f
        jq . u:
        jq g:*.jq f
        tar tf host:x
        tar -xf a.tar
        tar xf a.tar
        tar cf a.tar b
        tar -czf a.tgz b
        tar rf a.tar b
        tar uf a.tar b
        tar --delete -f a.tar b
        tar
        tar -f a.tar
        exec ls
        hash x
        file g:*
        lscpu u:",
    );
}

#[test]
fn find_that_does_more() {
    check(
        "-",
        "find . -delete
        find . -name *.pyc -delete
        find . -fprint out
        find . -fprint0 out
        find . -fprintf out %p
        find . -fls out
        find . -fprintx
        find . u:
        find . m:
        find u: -name x
        find g:*
        find . -name g:*.py
        find . -newer g:a*
        find . g:-name *.py
        find . -zzz
        find . -name
        find . -D exec",
    );
    check(
        "L",
        "find . -exec cat {} ;
        find . -execdir cat {} +
        find . -ok rm {} ;
        find . -okdir rm {} ;
        fd -x rm
        fd foo -X rm
        fd --exec rm
        rg --pre cat TODO
        rg --pre=cat TODO
        rg --hostname-bin=x y
        rg -z foo
        sort --compress-program=x a",
    );
    check(
        "-",
        "rg --pr cat x
        rg g:*
        rg u: src
        fd g:*
        fd --exe rm
        sort --compress-prog x a",
    );
}

#[test]
fn sed_that_does_more() {
    let lines = "sed w_out f
        sed -n w_x f
        sed 1w_x f
        sed s/a/b/w_f f
        sed s/a/b/gw_f f
        sed s/a/b/e f
        sed s/a/b/ge f
        sed 1e f
        sed e_ls f
        sed $e f
        sed r_x f
        sed R_x f
        sed W_x f
        sed p;w_x f
        sed -n /a/w_x f
        sed /a/{w_x¶} f
        sed {p;e} f
        sed -f script f
        sed --file=script f
        sed -fscript f
        sed -n -f script f
        sed u: f
        sed -e u: f
        sed g:s/*/b/ f
        sed s/[/]/x/w_out f
        sed s/[/w_out f
        sed s/a f
        sed \\xaxw_f f
        sed a\\¶x f
        sed -e a\\ -e w_x f
        sed y/a/b f
        sed {p f
        sed p} f
        sed v f
        sed 1!e f
        sed -i s/a/b/w_f f
        sed -i e f
        sed --in-plac s/a/b/ f
        sed -n --expr=p f
        sed -i*/x s/a/b/ f
        sed -i../x s/a/b/ f
        sed -i s/a/b/
        sed -i s/a/b/ g:*
        sed -i s/a/b/ u:
        sed s/a/b/ u:
        sed s/a/b/ g:*
        sed s,a,b,;e f
        sed";
    check("L", lines);
    check(
        "E",
        "sed -i s/a/b/ f
        sed -i.bak s/a/b/g f g
        sed -i -e s/a/b/ -e 3d f
        sed -ie s/a/b/ f
        sed -Ei s/(a)/b/ src/f
        sed --in-place s/a/b/ f
        sed --in-place=.orig s/a/b/ f
        sed -i s/a/b/ g:src/*.py
        sed -i -n /x/p f
        sed -i 1i_x f
        sed -i $a_text_here f
        sed -i /x/c_new f",
    );
}

#[test]
fn git_that_does_more() {
    check(
        "-",
        "git
        git log --output=x
        git log --output x
        git diff --output=x
        git diff --outp=x
        git show --output=x
        git diff --textconv
        git log -u:
        git log u:
        git log g:*
        git diff g:-*
        git diff -Oorder
        git show --show-signature
        git log --show-signature
        git log --format=%G?
        git log --pretty=format:%GK
        git branch new
        git branch -v new
        git branch -d x
        git branch -D x
        git branch -vd x
        git branch -m a b
        git branch -f a b
        git branch --list -d x
        git branch --edit-description
        git branch -u origin/x
        git branch --set-upstream-to=x
        git branch --unset-upstream
        git tag v1
        git tag -d v1
        git tag -a v1
        git tag -v v1
        git tag -n v1
        git remote add a b
        git remote show origin
        git remote -v update
        git remote prune origin
        git stash
        git stash pop
        git stash drop
        git stash push
        git stash -m list
        git reflog expire
        git reflog delete x
        git config user.name x
        git config user.name
        git config --unset user.name
        git config --get x --unset y
        git config -e
        git config --add a b
        git config set a b
        git worktree add x
        git worktree remove x
        git symbolic-ref HEAD refs/heads/x
        git symbolic-ref -d HEAD
        git cat-file --textconv HEAD:x
        git cat-file --filters HEAD:x
        git cat-file --batch
        git submodule status
        git ls-remote
        git help log
        git log --help
        git add .
        git commit -m x
        git push
        git pull
        git fetch
        git checkout x
        git switch x
        git reset
        git clean -fd
        git rm a
        git mv a b
        git gc
        git --git-dir=x status
        git --work-tree=x status
        git --git-dir x status
        git -p log
        git --bare log
        git --paginate log
        git -C u: status
        git -C
        git u: status
        git rev-parse --parseopt
        git rev-list --use-bitmap-index HEAD
        git version --x",
    );
    check(
        "L",
        "git -c core.pager=x log
        git -c alias.x=!ls x
        git --config-env=a=b log
        git --exec-path=x log
        git diff --ext-diff
        git log --ext-diff
        git grep -O foo
        git grep --open-files-in-pager=x foo
        git bisect run x
        git rebase --exec x
        git rebase -x x
        git filter-branch x
        git submodule foreach x
        git difftool
        git mergetool
        git fetch --upload-pack=x
        git -C x -c a=b log",
    );
}

#[test]
fn editing() {
    check(
        "E",
        "mkdir a
        mkdir -p a/b c
        mkdir -m 755 a
        mkdir -pv a
        touch a b
        touch -r ref a
        touch -d yesterday a
        cp a b
        cp -r a b
        cp -a a b c/
        cp -t dir a b
        cp --target-directory=dir a
        cp -- -a b
        cp g:src/*.rs dst
        mv a b
        mv -f a b
        mv -t dir a
        ln -s a b
        ln a b
        ln -sf a b
        ln -s a
        chmod +x a
        chmod 644 a
        chmod -x a
        chmod -R u+w a
        chmod --reference=a b
        chmod -v u=rw,go= a
        tee a
        tee -a a b
        rm a
        rm -f a
        rm -r a
        rm -v a b
        rm -- -x
        rmdir a",
    );
    check(
        "-",
        "mkdir
        mkdir --paren a
        mkdir -Z=x
        mkdir u:
        mkdir m:a
        mkdir u:src/
        touch --zzz a
        cp
        cp a
        cp a b u:
        cp g:* dst
        cp -S /x a b
        cp --suffix=x a b
        mv g:* dst
        mv u: x
        rm -rf a
        rm -fr a
        rm -r -f a
        rm -Rf a
        rm --recursive --force a
        rm --recursive -f a
        rm -rvf a
        rm --recurs --forc a
        rm a -rf
        rm --no-preserve-root a
        rm g:*
        rm u:
        rmdir -p a
        chmod g:* a
        chmod +x
        chmod u: a
        tee
        tee g:*
        install a b
        /bin/mkdir a
        ln
        ln -S x a b
        truncate -s 0 a
        dd of=a
        unlink a",
    );
}

#[test]
fn launching() {
    check(
        "L",
        "python3 a.py
        python3 -c x
        python3 -v
        python3 -V x
        python3.12 a.py
        python -m pytest
        node a.js
        node -e x
        perl -e x
        ruby a.rb
        php a.php
        lua a.lua
        awk {print}
        gawk 1 a
        mawk 1 a
        bash a.sh
        sh a.sh
        bash
        sh -V
        Rscript a.R
        julia a.jl
        deno run a
        bun a
        ts-node a
        osascript a
        make
        make check
        make -n
        make -V x
        ninja
        cmake --build .
        npm run test
        npm test
        npm start
        npm exec x
        npm install
        npx x
        yarn
        pnpm x
        pip install x
        cargo build
        cargo run
        cargo test
        go run x
        go generate
        go test x
        gradle x
        mvn x
        bundle exec x
        rake x
        tox
        pytest
        just x
        task x
        ssh host
        scp a b
        rsync -e x a b
        rsync a host:b
        tar --checkpoint-action=exec=x -cf a b
        tar -tf a --checkpoint-action=exec=x
        tar tf a --to-command=x
        tar -I x -tf a
        tar --use-compress-program=x -tf a
        tar -F x -tf a
        vi a
        vim a
        nvim a
        nano a
        emacs a
        ed a
        ex a
        less a
        more a
        man ls
        parallel x
        watch ls
        script x
        expect x
        gdb x
        strace ls
        ltrace ls
        perf x
        docker run x
        docker exec x y
        podman run x
        kubectl exec x
        kubectl run x
        systemd-run x
        at now
        batch
        crontab -l
        screen
        tmux
        nsenter x
        chroot x
        unshare x
        su x
        runuser x
        ld-linux-x86-64.so.2 /bin/x
        /usr/bin/python3 a.py
        source a
        . a",
    );
}

#[test]
fn families() {
    use super::super::{Family, family};
    for (line, words, exact) in [
        ("npm run test", 3, false),
        ("npm run test:unit -- x", 3, false),
        ("yarn run build", 3, false),
        ("npm test", 2, false),
        ("cargo test --all", 2, false),
        ("go test ./x", 2, false),
        ("git commit -m x", 2, false),
        ("git add .", 2, false),
        ("make check", 2, true),
        ("mkdir -p a", 1, false),
    ] {
        assert_eq!(family(&super::words(line)), Some(Family { words, exact }), "{line}");
    }
    for line in [
        "npm run",
        "npm run -s",
        "npm run u:",
        "npm install x",
        "npm exec x",
        "python3 a.py",
        "python3",
        "bash a.sh",
        "make",
        "make -f x",
        "make check x",
        "make A=b",
        "make ../x",
        "ssh host",
        "awk 1",
        "git",
        "git -c a=b commit",
        "git rebase x",
        "git fetch",
        "git config a b",
        "/tmp/git commit",
        "rm a",
        "cargo",
        "go run x",
        "u:git commit",
        "npx x",
        "docker run x",
        "curl x",
        "xyz a",
        "make u:",
    ] {
        assert_eq!(family(&super::words(line)), None, "{line}");
    }
}

#[test]
fn a_version_that_runs_the_working_directory() {
    check(
        "L",
        "yarn --version
        yarn -v
        pytest --version
        pytest -V
        mvn --version
        sbt --version
        mocha --version
        erl --version",
    );
    check(
        "-",
        "flake8 --version
        zstdcat g:*
        jq -n import_\"c\"_as_$c_{search:\"/x\"};_$c
        jq include_\"c\";_f
        yq eval(.a) x",
    );
    check(
        "R",
        "zstdcat a.zst
        jq .include x
        jq .imports[0] x",
    );
}
