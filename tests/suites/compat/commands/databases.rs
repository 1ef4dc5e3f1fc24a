//! Databases and query languages.

use crate::Case;

use super::{large_file, shell, small_file, small_file_and};

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("sqlite3-memory", &["sqlite3", ":memory:"])
            .with_input(include_str!("../../../programs/data/script.sql")),
        Case::new("sqlite3-file", &["sqlite3", "database"])
            .with_input(include_str!("../../../programs/data/script.sql")),
        Case::new("sqlite3-import", &["sqlite3", "database", ".mode csv", ".separator ' '", ".import lines t"])
            .prepared(small_file),
        Case::new("sqlite3-windows", &["sqlite3", "-json", ":memory:"]).with_input(
            "with recursive n(i) as (values(1) union all select i + 1 from n where i < 50) \
             select i, sum(1.0 / i) over (order by i rows 3 preceding) as s, round(sqrt(i), 7) as r from n;\n",
        ),
        Case::new("sqlite3-aggregates", &["sqlite3", ":memory:"]).prepared(large_file).with_input(
            ".separator ' '\ncreate table t(w, n integer, x real);\n.import lines t\n\
             select count(*), avg(x), max(n), group_concat(distinct substr(w, 5, 1)) from t;\n\
             create index i on t(x);\nselect w, x from t order by x desc limit 5;\n",
        ),
        Case::new("sqlite3-integrity", &["sqlite3", "database", "pragma integrity_check", "vacuum", ".schema"])
            .prepared(small_file_and("sqlite3 database 'create table t(a); insert into t values (1), (2.5)'")),
        Case::new("jq", &["jq", "-c", "map(.x * 2) | add, (to_entries | length)"])
            .with_input("[{\"x\": 1}, {\"x\": 2.25}, {\"x\": -1e3}]"),
        Case::new("jq-floating-point", &["jq", "-n", "[range(1; 20) | sin, exp, log, sqrt, pow(.; 0.3)]"]),
        Case::new("xmllint", &["xmllint", "--format", "--xpath", "//b[@k > 1]", "file.xml"])
            .prepared(shell("echo '<a><b k=\"1\">x</b><b k=\"2\">y</b></a>' > file.xml")),
        Case::new("getent", &["getent", "passwd", "root", "nobody"]),
        Case::new("dpkg-query", &["dpkg-query", "-W", "-f", "${Package} ${Version}\\n"]),
        Case::new("units", &["units", "-t", "3 mile / hour", "m/s"]),
    ]
}
