//! `porpoise import`: a dump in the format of MySQL Shell, written by hand from its documentation, is
//! loaded; what cannot be read is refused with one line.

use porpoise_testkit::{Porpoise, wait_until};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Writes a dump of one schema: a table in two compressed files and one in a plain file, a table
/// without rows of its own, a trigger, a procedure and a view.
fn write_dump(folder: &Path) {
    let write = |name: &str, content: &str| std::fs::write(folder.join(name), content).unwrap();
    write(
        "@.json",
        r#"{"dumper": "mysqlsh Ver 8.0.36 for Linux on x86_64", "version": "2.0.1", "origin": "dumpSchemas",
            "schemas": ["shop"], "basenames": {"shop": "shop"}, "tzUtc": true,
            "defaultCharacterSet": "utf8mb4", "bytesPerChunk": 64000000, "consistent": true}"#,
    );
    write(
        "@.done.json",
        r#"{"end": "2024-01-01 00:00:00", "dataBytes": 60}"#,
    );
    write("@.sql", "-- MySQLShell dump\n");
    write("@.post.sql", "");
    write(
        "shop.json",
        r#"{"schema": "shop", "includesDdl": true, "includesData": true,
            "tables": ["goods", "log", "odd"], "views": ["list"], "procedures": ["p"],
            "basenames": {"goods": "shop@goods", "log": "shop@log", "odd": "shop@od%20d",
                          "list": "shop@list"}}"#,
    );
    write(
        "shop.sql",
        "CREATE DATABASE /*!32312 IF NOT EXISTS*/ `shop` /*!40100 DEFAULT CHARACTER SET utf8mb4 */;\n\
         USE `shop`;\nDELIMITER ;;\nCREATE DEFINER=`root`@`localhost` PROCEDURE `p`()\nBEGIN\n  SELECT 'in p';\n\
         END ;;\nDELIMITER ;\n",
    );
    let options = |columns: &str, decode: &str| {
        format!(
            r#"{{"schema": "shop", "columns": [{columns}], "primaryIndex": "id",
                "defaultCharacterSet": "utf8mb4", "fieldsTerminatedBy": "\t", "fieldsEnclosedBy": "",
                "fieldsOptionallyEnclosed": false, "fieldsEscapedBy": "\\", "linesTerminatedBy": "\n",
                "decodeColumns": {{{decode}}}}}"#
        )
    };
    let table = |columns: &str, decode: &str, compression: &str, extension: &str| {
        format!(
            r#"{{"options": {}, "includesData": true, "includesDdl": true, "triggers": [],
                "extension": "{extension}", "chunking": true, "compression": "{compression}"}}"#,
            options(columns, decode)
        )
    };
    let goods = r#""id", "name", "bytes", "at""#;
    let decode = r#""bytes": "FROM_BASE64""#;
    write("shop@goods.json", &table(goods, decode, "zstd", "tsv.zst"));
    write(
        "shop@goods.sql",
        "CREATE TABLE IF NOT EXISTS `goods` (`id` int NOT NULL AUTO_INCREMENT, `name` varchar(40), `bytes` \
         blob, `at` timestamp NULL, PRIMARY KEY (`id`)) ENGINE=InnoDB;\n",
    );
    write(
        "shop@goods.triggers.sql",
        "DELIMITER ;;\nCREATE TRIGGER `tr` AFTER INSERT ON `goods` FOR EACH ROW INSERT INTO log (what) \
         VALUES (NEW.name) ;;\nDELIMITER ;\n",
    );
    let compress = |name: &str, rows: &str| {
        let bytes = zstd::bulk::compress(rows.as_bytes(), 1).unwrap();
        std::fs::write(folder.join(name), bytes).unwrap();
        let index = (rows.len() as u64).to_be_bytes();
        std::fs::write(folder.join(format!("{name}.idx")), index).unwrap();
    };
    compress(
        "shop@goods@0.tsv.zst",
        "0\ttab\\tand \\\\\tAAH/\t2024-01-01 00:00:00\n1\tünï\t\\N\t\\N\n",
    );
    compress("shop@goods@@1.tsv.zst", "7\t\\N\t\t2024-06-01 12:00:00\n");
    write(
        "@.users.sql",
        "-- MySQLShell dump 2.0.1\nSET @x = 1;\n-- begin user 'app'@'%'\nCREATE USER IF NOT EXISTS 'app'@'%' \
         IDENTIFIED WITH 'mysql_native_password' AS '*14E65567ABDB5135D0CFD9A70B3032C179A49EE7' REQUIRE NONE \
         PASSWORD EXPIRE DEFAULT ACCOUNT UNLOCK;\n-- end user 'app'@'%'\n-- begin user 'root'@'localhost'\n\
         CREATE USER IF NOT EXISTS 'root'@'localhost' IDENTIFIED BY 'lost';\n-- end user 'root'@'localhost'\n\
         -- begin user 'old'@'%'\nCREATE USER IF NOT EXISTS 'old'@'%';\n-- end user 'old'@'%'\n\
         -- begin grants 'app'@'%'\nGRANT USAGE ON *.* TO `app`@`%`;\nGRANT SELECT ON `shop`.`goods` TO `app`@`%`;\n\
         GRANT SELECT ON `shop`.`list` TO `app`@`%`;\n-- end grants 'app'@'%'\n-- begin grants 'root'@'localhost'\n\
         GRANT NONSENSE ON *.* TO `root`@`localhost`;\n-- end grants 'root'@'localhost'\n",
    );
    write(
        "shop@log.json",
        &table(r#""id", "what""#, "", "none", "tsv"),
    );
    write(
        "shop@log.sql",
        "CREATE TABLE IF NOT EXISTS `log` (`id` int NOT NULL AUTO_INCREMENT PRIMARY KEY, `what` \
         varchar(40));\n",
    );
    write("shop@log.tsv", "1\tfirst\n2\tsecond\n");
    write("shop@log.tsv.idx", "\0\0\0\0\0\0\0\x11");
    write("shop@od%20d.json", &table(r#""a""#, "", "none", "tsv"));
    write(
        "shop@od%20d.sql",
        "CREATE TABLE IF NOT EXISTS `odd` (`a` int);\n",
    );
    write("shop@od%20d.tsv", "");
    write(
        "shop@list.pre.sql",
        "/*!50001 CREATE VIEW `list` AS SELECT 1 AS `id`, 1 AS `name` */;\n",
    );
    write(
        "shop@list.sql",
        "/*!50001 DROP VIEW IF EXISTS `list`*/;\n/*!50001 CREATE VIEW `list` AS select `id`,`name` from \
         `goods`*/;\n",
    );
}

fn import(server: &Porpoise, dump: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_porpoise"))
        .arg("import")
        .arg("--dump")
        .arg(dump)
        .arg("--into")
        .arg(format!("mysql://root@{}", server.mysql_addr))
        .args(more)
        .output()
        .unwrap()
}

/// The one line of an import that was refused.
fn refusal(done: &Output) -> String {
    assert!(!done.status.success());
    let text = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(text.trim_end().lines().count(), 1, "{text}");
    text
}

fn sql(server: &Porpoise, statements: &str) -> String {
    let done = server.sql(statements);
    assert!(done.is_ok, "{statements}: {}", done.stderr);
    done.stdout
}

const GOODS: &str = "SET time_zone = '+00:00';
    SELECT id, name, HEX(bytes), at FROM shop.goods ORDER BY id; SELECT * FROM shop.log";

#[test]
fn a_dump_of_mysql_shell_is_loaded() {
    let server = Porpoise::builder().start();
    let folder = tempfile::tempdir().unwrap();
    write_dump(folder.path());
    let text = refusal(&import(&server, folder.path(), &[]));
    assert!(text.contains("SET GLOBAL local_infile = ON"), "{text}");
    sql(&server, "SET GLOBAL local_infile = ON");
    let done = import(&server, folder.path(), &["--threads", "3"]);
    let text = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{text}");
    assert!(text.contains("import: 3 tables"), "{text}");
    let rows = "0\ttab\\tand \\\\\t0001FF\t2024-01-01 00:00:00\n1\tünï\tNULL\tNULL\n\
                7\tNULL\t\t2024-06-01 12:00:00\n1\tfirst\n2\tsecond\n";
    assert_eq!(sql(&server, GOODS), rows);
    let rest = "SELECT COUNT(*) FROM shop.list; CALL shop.p(); SELECT COUNT(*) FROM shop.odd;
                INSERT INTO shop.goods (name) VALUES ('later'); SELECT what FROM shop.log WHERE id > 2";
    assert_eq!(sql(&server, rest), "3\nin p\n0\nlater\n");

    let text = refusal(&import(&server, folder.path(), &[]));
    assert!(text.contains("5 objects of the dump exist"), "{text}");
    assert!(
        import(&server, folder.path(), &["--existing", "keep", "--quiet"])
            .status
            .success()
    );
    assert_eq!(sql(&server, "SELECT COUNT(*) FROM shop.goods"), "4\n");
    let dropped = import(&server, folder.path(), &["--existing", "drop", "--quiet"]);
    assert!(dropped.status.success(), "{dropped:?}");
    assert!(dropped.stderr.is_empty(), "{dropped:?}");
    assert_eq!(sql(&server, GOODS), rows);
}

#[test]
fn what_cannot_be_imported_is_refused_in_one_line() {
    let server = Porpoise::builder().start();
    sql(&server, "SET GLOBAL local_infile = ON");
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let refused = |text: &str| {
        let line = refusal(&import(&server, folder, &[]));
        assert!(line.contains(text), "{line}");
    };
    refused("@.json is missing");
    write_dump(folder);
    let change = |name: &str, from: &str, to: &str| {
        let path = folder.join(name);
        let old = std::fs::read_to_string(&path).unwrap();
        assert!(old.contains(from));
        std::fs::write(&path, old.replace(from, to)).unwrap();
        old
    };
    let old = change("@.json", "2.0.1", "3.0.0");
    refused("format version \"3.0.0\"");
    std::fs::write(folder.join("@.json"), old).unwrap();
    let old = change("shop@log.json", "\"none\"", "\"lz4\"");
    refused("compression \"lz4\" is not supported");
    std::fs::write(folder.join("shop@log.json"), old).unwrap();
    std::fs::rename(folder.join("shop@log.tsv"), folder.join("moved")).unwrap();
    refused("the files with the table's rows are missing");
    std::fs::rename(folder.join("moved"), folder.join("shop@log.tsv")).unwrap();
    // Nothing was created so far; a damaged file ends the import.
    assert_eq!(sql(&server, "SHOW DATABASES LIKE 'shop'"), "");
    std::fs::write(folder.join("shop@goods@0.tsv.zst"), "no zstd at all").unwrap();
    refused("import: ");
    std::fs::remove_file(folder.join("@.done.json")).unwrap();
    refused("the dump is not complete");
}

#[test]
fn files_compressed_by_gzip_are_loaded() {
    let server = Porpoise::builder().start();
    sql(&server, "SET GLOBAL local_infile = ON");
    let folder = tempfile::tempdir().unwrap();
    write_dump(folder.path());
    let table = folder.path().join("shop@log.json");
    let text = std::fs::read_to_string(&table).unwrap();
    let text = text
        .replace("\"none\"", "\"gzip\"")
        .replace("\"tsv\"", "\"tsv.gz\"");
    std::fs::write(table, text).unwrap();
    // Two members one after the other, as parallel programs write them.
    let mut bytes = Vec::new();
    for rows in ["1\tfirst\n2\tsec", "ond\n"] {
        let mut encoder = flate2::write::GzEncoder::new(&mut bytes, flate2::Compression::fast());
        encoder.write_all(rows.as_bytes()).unwrap();
        encoder.finish().unwrap();
    }
    std::fs::write(folder.path().join("shop@log.tsv.gz"), &bytes).unwrap();
    let done = import(&server, folder.path(), &[]);
    assert!(done.status.success(), "{done:?}");
    assert_eq!(
        sql(&server, "SELECT * FROM shop.log"),
        "1\tfirst\n2\tsecond\n"
    );
    // A file that was cut off is no file that ends earlier.
    std::fs::write(
        folder.path().join("shop@log.tsv.gz"),
        &bytes[..bytes.len() - 9],
    )
    .unwrap();
    let text = refusal(&import(
        &server,
        folder.path(),
        &["--existing", "drop", "--quiet"],
    ));
    assert!(text.contains("shop@log.tsv.gz"), "{text}");
    assert_eq!(sql(&server, "SELECT COUNT(*) FROM shop.log"), "0\n");
}

/// Standard error of an import that succeeded.
fn report(done: &Output) -> String {
    let text = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{text}");
    text
}

#[test]
fn accounts_are_created_with_their_privileges() {
    let server = Porpoise::builder().start();
    sql(&server, "SET GLOBAL local_infile = ON");
    let folder = tempfile::tempdir().unwrap();
    write_dump(folder.path());
    let accounts = |options: &[&str]| import(&server, folder.path(), options);
    sql(&server, "CREATE USER old IDENTIFIED BY 'kept'");
    let text = refusal(&accounts(&["--users"]));
    assert!(
        text.contains("account 'old'@'%' of the dump exists"),
        "{text}"
    );
    assert_eq!(sql(&server, "SHOW DATABASES LIKE 'porpoise_import'"), "");
    let text = report(&accounts(&["--users", "--existing", "keep"]));
    assert!(text.contains("import: 1 accounts created"), "{text}");
    // `root` keeps its password and grants, whatever the dump says.
    assert!(
        text.contains("import: 2 accounts existed and were kept"),
        "{text}"
    );
    assert_eq!(
        sql(&server, "SHOW GRANTS FOR app"),
        "GRANT USAGE ON *.* TO `app`@`%`\nGRANT SELECT ON `shop`.`goods` TO `app`@`%`\n\
         GRANT SELECT ON `shop`.`list` TO `app`@`%`\n"
    );
    let hash = "SELECT authentication_string FROM mysql.user WHERE User = 'app'";
    assert_eq!(
        sql(&server, hash),
        "*14E65567ABDB5135D0CFD9A70B3032C179A49EE7\n"
    );
    // A privilege for what was left out is reported, and the rest is done.
    let options = [
        "--users",
        "--existing",
        "drop",
        "--exclude-tables",
        "shop.list",
    ];
    let options = [&options[..], &["--exclude-users", "old"]].concat();
    sql(&server, "DROP VIEW shop.list");
    let done = accounts(&options);
    let text = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(1), "{text}");
    assert!(
        text.contains("import: not granted: GRANT SELECT ON `shop`.`list`"),
        "{text}"
    );
    assert!(text.contains("except for 1 grants"), "{text}");
    assert_eq!(sql(&server, "SELECT COUNT(*) FROM shop.goods"), "3\n");
    let hash = "SELECT authentication_string = '' FROM mysql.user WHERE User = 'old'";
    assert_eq!(sql(&server, hash), "0\n");
}

#[test]
fn schemas_and_tables_are_selected_by_name() {
    let server = Porpoise::builder().start();
    sql(&server, "SET GLOBAL local_infile = ON");
    let folder = tempfile::tempdir().unwrap();
    write_dump(folder.path());
    for (options, problem) in [
        (["--include-schemas", "shops"], "no schema shops"),
        (
            ["--exclude-tables", "shop.good"],
            "no table or view shop.good",
        ),
        (
            ["--include-tables", "goods"],
            "\"goods\" is not SCHEMA.TABLE",
        ),
    ] {
        let text = refusal(&import(&server, folder.path(), &options));
        assert!(text.contains(problem), "{text}");
    }
    let tables = || sql(&server, "SHOW TABLES FROM shop");
    let text = report(&import(
        &server,
        folder.path(),
        &["--include-tables", "shop.log,`shop`.`odd`"],
    ));
    assert!(text.contains("import: 2 tables, 2 rows"), "{text}");
    assert!(
        text.contains("import: 2 tables and views were not selected"),
        "{text}"
    );
    assert_eq!(tables(), "log\nodd\n");
    sql(&server, "DROP DATABASE shop");
    report(&import(
        &server,
        folder.path(),
        &["--exclude-tables", "shop.log"],
    ));
    assert_eq!(tables(), "goods\nlist\nodd\n");
    report(&import(
        &server,
        folder.path(),
        &["--exclude-schemas", "shop", "--existing", "keep"],
    ));
}

#[test]
fn a_killed_import_continues_without_a_row_twice() {
    const FILES: usize = 160;
    const ROWS: usize = 4000;
    let server = Porpoise::builder().start();
    sql(&server, "SET GLOBAL local_infile = ON");
    let folder = tempfile::tempdir().unwrap();
    write_dump(folder.path());
    std::fs::remove_file(folder.path().join("shop@od%20d.tsv")).unwrap();
    for number in 0..FILES {
        // No key: a row that is loaded twice is there twice.
        let rows: String = (0..ROWS)
            .map(|row| format!("{}\n", number * ROWS + row))
            .collect();
        let mark = if number + 1 == FILES { "@@" } else { "@" };
        let name = format!("shop@od%20d{mark}{number}.tsv");
        std::fs::write(folder.path().join(name), rows).unwrap();
    }
    let command = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_porpoise"));
        command
            .args(["import", "--users", "--threads", "2", "--dump"])
            .arg(folder.path())
            .arg("--into")
            .arg(format!("mysql://root@{}", server.mysql_addr))
            .args(more)
            .stderr(Stdio::piped());
        command
    };
    let loaded = || {
        let count = server.sql("SELECT COUNT(*) FROM porpoise_import.progress WHERE kind = 'file'");
        count.stdout.trim().parse::<usize>().unwrap_or(0)
    };
    // Killed at several times, once before the first file.
    for least in [0, 3, 12] {
        let mut child = command(&[]).spawn().unwrap();
        wait_until(Duration::from_secs(60), || {
            let begun = server.sql("SELECT 1 FROM porpoise_import.progress LIMIT 1");
            (begun.stdout == "1\n" && loaded() >= least).then_some(())
        })
        .expect("the import to begin");
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let before = loaded();
    assert!(
        (12..FILES).contains(&before),
        "killed too late: {before} files"
    );
    let text = report(&command(&[]).output().unwrap());
    assert!(
        text.contains("import: continues an interrupted import"),
        "{text}"
    );
    let odd = "SELECT COUNT(*), COUNT(DISTINCT a), MAX(a) FROM shop.odd";
    let all = FILES * ROWS;
    assert_eq!(sql(&server, odd), format!("{all}\t{all}\t{}\n", all - 1));
    assert_eq!(sql(&server, "SELECT COUNT(*) FROM shop.goods"), "3\n");
    assert_eq!(
        sql(&server, "SELECT COUNT(*) FROM shop.list; CALL shop.p()"),
        "3\nin p\n"
    );
    let grants = "SELECT COUNT(*) FROM mysql.tables_priv WHERE User = 'app'";
    assert_eq!(sql(&server, grants), "2\n");
    // Nothing is left, and the same import is a new one.
    assert_eq!(sql(&server, "SHOW DATABASES LIKE 'porpoise_import'"), "");
    let text = refusal(&command(&[]).output().unwrap());
    assert!(text.contains("of the dump exist"), "{text}");
    // An interrupted import is forgotten on request.
    let mut child = command(&["--existing", "drop"]).spawn().unwrap();
    wait_until(Duration::from_secs(60), || (loaded() >= 2).then_some(())).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let text = refusal(&command(&["--restart"]).output().unwrap());
    assert!(text.contains("of the dump exist"), "{text}");
    let text = report(
        &command(&["--restart", "--existing", "drop"])
            .output()
            .unwrap(),
    );
    assert!(!text.contains("continues"), "{text}");
    assert_eq!(sql(&server, odd), format!("{all}\t{all}\t{}\n", all - 1));
}

#[test]
fn imports_use_tls_and_passwords_and_print_none() {
    let server = Porpoise::builder().start();
    sql(
        &server,
        "SET GLOBAL local_infile = ON; CREATE USER loader IDENTIFIED WITH caching_sha2_password BY \
         'se@cret' REQUIRE SSL; GRANT ALL ON *.* TO loader",
    );
    let folder = tempfile::tempdir().unwrap();
    write_dump(folder.path());
    let address = server.mysql_addr;
    let certificate = server.data_dir.join("server-cert.pem");
    let into = |url: &str, more: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_porpoise"))
            .args([
                "import",
                "--quiet",
                "--existing",
                "drop",
                "--into",
                url,
                "--dump",
            ])
            .arg(folder.path())
            .args(more)
            .output()
            .unwrap()
    };
    let url = format!("mysql://loader:se@cret@{address}");
    let text = refusal(&into(&url, &["--tls", "off"]));
    assert!(text.contains("1045"), "{text}");
    report(&into(&url, &["--ssl-mode", "REQUIRED"]));
    let authority = [
        "--tls-ca",
        certificate.to_str().unwrap(),
        "--tls",
        "verify-ca",
    ];
    report(&into(&url, &authority));
    let text = refusal(&into(&url, &["--tls", "verify-ca"]));
    assert!(text.contains("TLS"), "{text}");
    // Without TLS the password is encrypted by the server's key.
    sql(&server, "ALTER USER loader REQUIRE NONE; FLUSH PRIVILEGES");
    report(&into(&url, &["--tls", "off"]));
    for wrong in [
        format!("mysql://loader:se@cret@{address}/shop"),
        "mysql://loader:se@cret@host:port".to_owned(),
        format!("mysql://loader:wrong-se@cret@{address}"),
    ] {
        let text = refusal(&into(&wrong, &[]));
        assert!(!text.contains("cret"), "{text}");
    }
}
