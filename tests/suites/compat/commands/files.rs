//! Programs that look at files and move them: coreutils, findutils.

use crate::Case;

use super::{small_file, tree};

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("true", &["true"]),
        Case::new("false", &["false"]),
        Case::new("echo", &["echo", "a", "b  c"]),
        Case::new("env", &["env"]),
        Case::new("ls-l", &["ls", "-l", "--color=always"]).prepared(tree),
        Case::new("ls-l-recursive", &["ls", "-lR", "/usr/include"]),
        Case::new("cat", &["cat", "lines", "-", "missing"]).prepared(small_file).with_input("from standard input\n"),
        Case::new("cp-recursive", &["cp", "-r", "a", "copy"]).prepared(tree),
        Case::new("mv", &["mv", "a", "c", "missing", "."]).prepared(tree),
        Case::new("rm-recursive", &["rm", "-r", "a"]).prepared(tree),
        Case::new("mkdir-mode", &["mkdir", "-p", "-m", "700", "x/y/z"]),
        Case::new("dd", &["dd", "if=lines", "of=out", "bs=777", "skip=3", "count=20", "status=none"])
            .prepared(small_file),
        Case::new("find", &["find", ".", "-name", "*e*", "-size", "-3", "-printf", "%p %s %m\n"]).prepared(tree),
        Case::new("find-exec", &["find", "a", "-type", "f", "-exec", "cat", "{}", "+"]).prepared(tree),
        Case::new("tar", &["tar", "--sort=name", "-cf", "out.tar", "a", "c"]).prepared(tree),
        Case::new("stat", &["stat", "-c", "%n %s %A %y", "lines", "a"]).prepared(tree),
        Case::new("split", &["split", "-l", "100", "lines", "part."]).prepared(small_file),
        Case::new("date", &["date", "-d", "2024-02-29 12:34:56 + 3 weeks", "+%A %j %V %s %c"]),
        Case::new("timeout", &["timeout", "0.1", "sleep", "5"]),
        Case::new("du", &["du", "-a", "--apparent-size", "c"]).prepared(tree),
        Case::new("chmod", &["chmod", "-R", "-v", "u=rwX,go=", "a"]).prepared(tree),
        Case::new("ln", &["ln", "-sv", "../c/three.txt", "a/three"]).prepared(tree),
        Case::new("readlink", &["readlink", "-f", "link"]).prepared(tree),
        Case::new("realpath", &["realpath", "--relative-to=c", "a/b/two"]).prepared(tree),
        Case::new("touch", &["touch", "-d", "2020-01-01", "a/one", "new"]).prepared(tree),
        Case::new("truncate", &["truncate", "-s", "1M", "a/one"]).prepared(tree),
        Case::new("install", &["install", "-D", "-m", "640", "lines", "x/y/lines"]).prepared(small_file),
        Case::new("cmp", &["cmp", "-l", "lines", "c/three.txt"]).prepared(tree),
        Case::new("mkfifo", &["mkfifo", "-m", "600", "/dev/null/fifo"]),
        Case::new("uname", &["uname", "-srm"]),
        Case::new("id", &["id"]),
        Case::new("file", &["file", "lines", "link", "a", "/bin/ls"]).prepared(tree),
        Case::new("busybox-sh", &["busybox", "sh", "-c", "for f in *; do echo $f; done | busybox md5sum"])
            .prepared(tree),
        Case::new("busybox-awk", &["busybox", "awk", "{ s += $3 } END { printf \"%.15g\\n\", s }", "lines"])
            .prepared(small_file),
        Case::new("curl-file", &["curl", "-s", "file:///etc/passwd"]),
        Case::new("nice", &["nice", "-n", "3", "nice"]),
    ]
}
