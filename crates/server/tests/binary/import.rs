//! `porpoise import`: a dump in the format of MySQL Shell, written by hand from its documentation, is
//! loaded; what cannot be read is refused with one line.

use porpoise_testkit::Porpoise;
use std::path::Path;
use std::process::{Command, Output};

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
    assert!(
        text.contains("4 tables and views of the dump exist"),
        "{text}"
    );
    std::fs::remove_file(folder.path().join("shop.sql")).unwrap();
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
    let old = change("shop@log.json", "\"none\"", "\"gzip\"");
    refused("compression \"gzip\" is not supported");
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
