//! Posts are inserted while their users are deleted: in any order, no post is left without its user,
//! and no statement waits for ever.

use crate::forum::{FORUMS, board, check_indexes, cross_check};
use crate::support::{Failure, Random, Sql, server};

const POSTERS: u64 = 6;
/// Few, so that inserts and deletes meet.
const HOT_USERS: u64 = 40;

/// Inserts until all hot users are deleted. Returns the numbers of accepted and refused posts.
fn post_until_refused(sql: &mut Sql, seed: u64) -> (u64, u64) {
    let mut random = Random::new(seed);
    let (mut taken, mut refused) = (0, 0);
    let mut since_taken = 0;
    while since_taken < 200 {
        let uid = 1 + random.below(HOT_USERS);
        let fid = 1 + random.below(FORUMS);
        let text = format!("insert into users_posts_fk (uid,fid,message) values ({uid},{fid},'x')");
        match sql.attempt(&text) {
            Ok(_) => (taken, since_taken) = (taken + 1, 0),
            Err(Failure::Refused(e)) if e.code == 1452 => {
                (refused, since_taken) = (refused + 1, since_taken + 1);
            }
            // A victim of a deadlock may try again.
            Err(Failure::Refused(e)) if e.code == 1213 => {}
            Err(other) => panic!("{text}: {other}"),
        }
    }
    (taken, refused)
}

fn delete_users(sql: &mut Sql, users: impl Iterator<Item = u64>) {
    for uid in users {
        loop {
            match sql.attempt(&format!("delete from users where uid = {uid}")) {
                Ok(answer) => break assert_eq!(answer.affected, 1),
                Err(Failure::Refused(e)) if e.code == 1213 => {}
                Err(other) => panic!("delete of user {uid}: {other}"),
            }
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn no_child_row_outlives_its_parent_under_concurrent_changes() {
    let server = server().start();
    let mut sql = board(&server);
    let connect = || {
        let mut sql = Sql::connect(server.mysql_addr);
        sql.run("use board");
        sql
    };
    let (taken, refused) = std::thread::scope(|scope| {
        let posters: Vec<_> = (0..POSTERS)
            .map(|n| scope.spawn(move || post_until_refused(&mut connect(), n + 1)))
            .collect();
        for half in 0..2 {
            let users = (1..=HOT_USERS).filter(move |n| n % 2 == half);
            scope.spawn(move || delete_users(&mut connect(), users));
        }
        let counts = posters.into_iter().map(|p| p.join().unwrap());
        counts.fold((0, 0), |sum, (t, r)| (sum.0 + t, sum.1 + r))
    });
    assert!(taken > 0 && refused > 0, "{taken} taken, {refused} refused");
    let posts = cross_check(&mut sql, "users_posts_fk");
    assert!(posts.is_empty(), "all their users are gone: {posts:?}");
    check_indexes(&mut sql, "users_posts_fk", &posts);
    assert_eq!(
        sql.number("select count(*) from users_posts_fk where fid between 1 and 20"),
        0
    );
}
