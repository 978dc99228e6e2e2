//! Stores of earlier versions: one with a log of version 3, whose groups have no times, is read
//! and can be backed up; repositories are restored.

use crate::support::{connect, good, restore, server};
use std::path::Path;

#[test]
fn a_log_of_version_3_is_read_and_backed_up() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("data/store");
    std::fs::create_dir_all(&store).unwrap();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/backup/fixtures/log-3");
    for name in ["HEAD", "log-0000000000000001.seg"] {
        std::fs::copy(fixture.join(name), store.join(name)).unwrap();
    }
    let version = |name: &str| std::fs::read(store.join(name)).unwrap()[12];
    assert_eq!(version("log-0000000000000001.seg"), 3);
    let rows = ["2|zwei", "3|three"];
    let source = server(dir.path(), "data").start();
    assert_eq!(version("log-0000000000000002.seg"), 5);
    let mut sql = connect(&source);
    assert_eq!(good(&mut sql, "SELECT * FROM d.t ORDER BY n"), rows);
    good(&mut sql, "BACKUP DATABASE TO 'backups'");
    drop(source);
    restore(&dir.path().join("backups"), dir.path(), "restored", &[]);
    let restored = server(dir.path(), "restored").start();
    let mut sql = connect(&restored);
    assert_eq!(good(&mut sql, "SELECT * FROM d.t ORDER BY n"), rows);
}

#[test]
fn a_repository_of_version_1_is_restored() {
    let dir = tempfile::tempdir().unwrap();
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/backup/fixtures/repository-1");
    for (number, rows) in [("1", &["1|one"][..]), ("2", &["1|one", "2|two"])] {
        restore(&place, dir.path(), number, &["--backup", number]);
        let restored = server(dir.path(), number).start();
        let mut sql = connect(&restored);
        assert_eq!(good(&mut sql, "SELECT * FROM d.t ORDER BY n"), rows);
    }
}
