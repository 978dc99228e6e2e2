//! The forum, as published: users, forums and posts under two foreign keys with an auto-increment
//! column that ends a key, its twin without foreign keys, filled by eight connections.

use std::collections::{HashMap, HashSet};

use porpoise_testkit::Porpoise;

use crate::support::{Random, Sql, server};

/// The statements byte for byte, parents first.
pub const TABLES: [&str; 4] = [
    "create table users(uid integer auto_increment primary key, name varchar(255), \
     email varchar(255), view_cnt bigint unsigned default 0, created bigint unsigned default 0) \
     engine=ndb",
    "create table forum(fid integer auto_increment primary key, name varchar(255)) engine=ndb",
    "create table users_posts_fk (uid integer, fid integer, pid integer auto_increment, \
     message varchar(1024), primary key(uid,fid,pid), constraint fk_forum foreign key(fid) \
     references forum(fid) on delete cascade, constraint fk_user foreign key(uid) references \
     users(uid) on delete cascade) engine=ndb",
    "create table users_posts (uid integer, fid integer, pid integer auto_increment, \
     message varchar(1024), primary key(uid,fid,pid), key forum(fid)) engine=ndb",
];

pub const USERS: u64 = 500;
pub const FORUMS: u64 = 20;
const CONNECTIONS: u64 = 8;

/// A database `board` with the tables, users and forums.
pub fn board(server: &Porpoise) -> Sql {
    let mut sql = Sql::connect(server.mysql_addr);
    sql.run("create database board");
    sql.run("use board");
    for table in TABLES {
        sql.run(table);
    }
    let names = |count: u64, name: &str| {
        let rows: Vec<String> = (1..=count).map(|n| format!("('{name} {n}')")).collect();
        rows.join(",")
    };
    let users = sql.run(&format!(
        "insert into users (name) values {}",
        names(USERS, "user")
    ));
    assert_eq!(users.affected, USERS);
    assert_eq!(users.insert_id, 1);
    sql.run(&format!(
        "insert into forum (name) values {}",
        names(FORUMS, "forum")
    ));
    sql
}

/// Inserts a number of random posts, one or ten in a statement. Returns the ids in the replies, as
/// first and count.
fn post(sql: &mut Sql, table: &str, seed: u64, count: u64) -> Vec<(u64, u64)> {
    let mut random = Random::new(seed);
    let mut ids = Vec::new();
    let mut left = count;
    while left > 0 {
        let rows = if random.below(2) == 0 {
            1
        } else {
            left.min(10)
        };
        let values: Vec<String> = (0..rows)
            .map(|n| {
                let (uid, fid) = (1 + random.below(USERS), 1 + random.below(FORUMS));
                format!("({uid},{fid},'post {seed}-{}')", left - n)
            })
            .collect();
        let values = values.join(",");
        let answer = sql.run(&format!(
            "insert into {table} (uid,fid,message) values {values}"
        ));
        assert_eq!(answer.affected, rows);
        ids.push((answer.insert_id, rows));
        left -= rows;
    }
    ids
}

/// Fills a table over eight connections; gives the set of ids.
fn fill(server: &Porpoise, table: &str, rows: u64) -> HashSet<u64> {
    let returned: Vec<(u64, u64)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..CONNECTIONS)
            .map(|n| {
                scope.spawn(move || {
                    let mut sql = Sql::connect(server.mysql_addr);
                    sql.run("use board");
                    post(&mut sql, table, n + 1, rows / CONNECTIONS)
                })
            })
            .collect();
        let returned = workers.into_iter().flat_map(|w| w.join().unwrap());
        returned.collect()
    });
    let mut ids = HashSet::new();
    for (first, count) in returned {
        for id in first..first + count {
            assert!(ids.insert(id), "id {id} was given twice");
        }
    }
    ids
}

/// Reads children and parents in full and holds them against each other.
pub fn cross_check(sql: &mut Sql, table: &str) -> Vec<(i64, i64, i64)> {
    let mut keys = |text: &str| -> HashSet<i64> {
        let rows = sql.numbers(text);
        rows.into_iter().map(|row| row[0]).collect()
    };
    let users = keys("select uid from users");
    let forums = keys("select fid from forum");
    let posts: Vec<(i64, i64, i64)> = sql
        .numbers(&format!("select uid, fid, pid from {table}"))
        .into_iter()
        .map(|row| (row[0], row[1], row[2]))
        .collect();
    let mut ids = HashSet::new();
    for post in &posts {
        assert!(users.contains(&post.0), "{post:?} has no user");
        assert!(forums.contains(&post.1), "{post:?} has no forum");
        assert!(ids.insert(post.2), "{post:?} has an id of another");
    }
    let count = sql.number(&format!("select count(*) from {table}"));
    assert_eq!(count as usize, posts.len());
    posts
}

/// Through the index of each foreign key the same posts are found as through the rows.
pub fn check_indexes(sql: &mut Sql, table: &str, posts: &[(i64, i64, i64)]) {
    let mut by_user: HashMap<i64, i64> = HashMap::new();
    let mut by_forum: HashMap<i64, i64> = HashMap::new();
    for (uid, fid, _) in posts {
        *by_user.entry(*uid).or_default() += 1;
        *by_forum.entry(*fid).or_default() += 1;
    }
    for (column, expected) in [("uid", by_user), ("fid", by_forum)] {
        for (key, count) in expected {
            let text = format!("select count(*) from {table} where {column} = {key}");
            assert_eq!(sql.number(&text), count, "{text}");
        }
    }
}

fn experiment(rows: u64) {
    let server = server().start();
    let mut sql = board(&server);
    let returned = fill(&server, "users_posts_fk", rows);
    let posts = cross_check(&mut sql, "users_posts_fk");
    let stored: HashSet<u64> = posts.iter().map(|p| p.2 as u64).collect();
    assert_eq!(
        stored, returned,
        "the ids in the rows are those that were returned"
    );
    assert_eq!(stored.len() as u64, rows);
    check_indexes(&mut sql, "users_posts_fk", &posts);
    fill(&server, "users_posts", rows / 10);
    cross_check(&mut sql, "users_posts");
    an_orphan_is_refused(&mut sql, posts.len());
    a_deleted_user_takes_its_posts(&mut sql, &posts);
}

fn an_orphan_is_refused(sql: &mut Sql, posts: usize) {
    for (values, constraint) in [
        ("(1,999999,'x')", "fk_forum"),
        ("(999999,1,'x')", "fk_user"),
    ] {
        let insert = "insert into users_posts_fk (uid,fid,message) values (1,1,'y'),";
        let error = sql.refused(&format!("{insert}{values}"));
        assert_eq!(error.code, 1452, "{error:?}");
        assert_eq!(&error.sqlstate, b"23000");
        assert!(
            error
                .message
                .contains(&format!("CONSTRAINT `{constraint}`")),
            "{error:?}"
        );
    }
    let moved = sql.refused("update users_posts_fk set fid = 999999 where uid = 1");
    assert_eq!(moved.code, 1452, "{moved:?}");
    let count = sql.number("select count(*) from users_posts_fk");
    assert_eq!(count as usize, posts, "a refused statement left rows");
    // The twin takes what it is given.
    sql.run("insert into users_posts (uid,fid,message) values (1,999999,'x')");
}

fn a_deleted_user_takes_its_posts(sql: &mut Sql, posts: &[(i64, i64, i64)]) {
    let of_user = posts.iter().filter(|p| p.0 == 7).count();
    assert!(of_user > 0);
    assert_eq!(sql.run("delete from users where uid = 7").affected, 1);
    let left = cross_check(sql, "users_posts_fk");
    assert_eq!(left.len(), posts.len() - of_user);
    assert!(left.iter().all(|p| p.0 != 7));
    sql.run("delete from forum where fid in (3, 4)");
    let kept = cross_check(sql, "users_posts_fk");
    let expected: HashSet<_> = left.iter().filter(|p| p.1 != 3 && p.1 != 4).collect();
    assert_eq!(kept.iter().collect::<HashSet<_>>(), expected);
    check_indexes(sql, "users_posts_fk", &kept);
}

#[test]
fn the_forum_holds_under_eight_connections() {
    experiment(100_000);
}

#[test]
#[ignore = "a million rows"]
fn the_forum_holds_a_million_rows() {
    experiment(1_000_000);
}
