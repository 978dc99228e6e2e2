//! The forum's definitions: the output of SHOW CREATE TABLE loads here and in MariaDB, and a foreign
//! key can be dropped.

use porpoise_testkit::Mariadb;

use crate::forum::board;
use crate::support::{Sql, server};

const NAMES: [&str; 4] = ["users", "forum", "users_posts_fk", "users_posts"];

fn definition(sql: &mut Sql, table: &str) -> String {
    let rows = sql.rows(&format!("show create table {table}"));
    assert_eq!(rows[0][0], table);
    rows[0][1].clone()
}

#[test]
fn shown_definitions_can_be_executed_and_are_shown_the_same() {
    let server = server().start();
    let mut sql = board(&server);
    let texts: Vec<String> = NAMES.iter().map(|n| definition(&mut sql, n)).collect();
    sql.run("create database again");
    sql.run("use again");
    for (name, text) in NAMES.iter().zip(&texts) {
        sql.run(text);
        assert_eq!(&definition(&mut sql, name), text);
    }
    for constraint in ["fk_forum", "fk_user"] {
        assert!(texts[2].contains(&format!("CONSTRAINT `{constraint}` FOREIGN KEY")));
    }
    assert!(texts[2].contains("ON DELETE CASCADE"));
    assert!(texts[2].contains("PRIMARY KEY (`uid`,`fid`,`pid`)"));
    assert!(texts[3].contains("KEY `forum` (`fid`)"));
    assert!(!texts[3].contains("CONSTRAINT"));
    // The copy refuses what the original refuses.
    let error = sql.refused("insert into users_posts_fk (uid,fid,message) values (1,1,'x')");
    assert_eq!(error.code, 1452);
}

#[test]
fn show_create_table_output_loads_in_mariadb() {
    let server = server().start();
    let mut sql = board(&server);
    let peer = Mariadb::builder().start();
    let mut script = String::from("create database board; use board;");
    for name in NAMES {
        // InnoDB wants a key that begins with the counter, which is why the text names the
        // engine that does not. Debian's MariaDB lacks MySQL 8's default collation.
        let text = definition(&mut sql, name)
            .replace(
                "PRIMARY KEY (`uid`,`fid`,`pid`)",
                "PRIMARY KEY (`uid`,`fid`,`pid`), KEY (`pid`)",
            )
            .replace("ENGINE=ndbcluster", "ENGINE=InnoDB")
            .replace("utf8mb4_0900_ai_ci", "utf8mb4_general_ci");
        script.push_str(&text);
        script.push(';');
    }
    let loaded = peer.sql(&script);
    assert!(loaded.is_ok, "{}", loaded.stderr);
    let orphan = peer.sql("insert into board.users_posts_fk (uid,fid) values (1,1)");
    assert_eq!(orphan.error_number(), Some(1452), "{}", orphan.stderr);
}

#[test]
fn a_dropped_foreign_key_binds_no_more() {
    let server = server().start();
    let mut sql = board(&server);
    let insert = "insert into users_posts_fk (uid,fid,message) values (1,999,'x')";
    assert_eq!(sql.refused(insert).code, 1452);
    sql.run("alter table users_posts_fk drop foreign key fk_forum");
    sql.run(insert);
    let text = definition(&mut sql, "users_posts_fk");
    assert!(!text.contains("fk_forum` FOREIGN"), "{text}");
    assert!(text.contains("CONSTRAINT `fk_user` FOREIGN KEY"), "{text}");
    let user = sql.refused("insert into users_posts_fk (uid,fid,message) values (999,1,'x')");
    assert_eq!(user.code, 1452);
    let again = sql.refused("alter table users_posts_fk drop foreign key fk_forum");
    assert_eq!(again.code, 1091, "{again:?}");
}
