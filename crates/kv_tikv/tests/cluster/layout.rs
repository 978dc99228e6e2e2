//! The key layout in a cluster: its version is checked, tenants are separate, and dropped spaces
//! leave no rows.

use super::double::{AnyCluster, Double, begin, get, prefix, set, space};
use porpoise_base::cancel::Cancel;
use porpoise_kv::{Check, Engine, Error, Key, Read, SpaceId};
use porpoise_kv_tikv::{KEY_FORMAT_VERSION, KvTikv, KvTikvOptions};
use porpoise_tikv_client::{
    Call, Change, Client, ClientOptions, CommitOptions, PageRequest, Write,
};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A client that knows nothing of the engine's layout.
fn raw(cluster: &Double) -> Client {
    let options = cluster.options();
    Client::connect(ClientOptions {
        endpoints: options.endpoints,
        connect_time: options.connect_timeout,
        request_time: options.request_timeout,
        retry_time: options.retry_timeout,
        lock_ttl: options.lock_ttl,
        threads: 1,
        tls: options.tls,
    })
    .unwrap()
}

/// Writes a key of the cluster, bypassing the engine.
fn write_raw(cluster: &Double, key: Vec<u8>, value: Vec<u8>) {
    let cancel = Cancel::new();
    let call = Call {
        cancel: &cancel,
        deadline: None,
    };
    let client = raw(cluster);
    let ts = client.timestamp(call).unwrap();
    let write = Write {
        key,
        change: Change::Put(value),
        locked: false,
    };
    let options = CommitOptions {
        lock_wait: Duration::from_secs(1),
        max_commit_ts: 0,
    };
    client.begin(ts).commit(call, vec![write], options).unwrap();
}

/// Number of keys of the cluster with this prefix.
fn count_raw(cluster: &Double, prefix: Vec<u8>) -> usize {
    let cancel = Cancel::new();
    let call = Call {
        cancel: &cancel,
        deadline: None,
    };
    let client = raw(cluster);
    let ts = client.timestamp(call).unwrap();
    let page = PageRequest {
        end: porpoise_kv::prefix_end(&prefix).unwrap(),
        start: prefix,
        limit: 100,
        reverse: false,
        keys_only: true,
    };
    client.page(call, ts, &page).unwrap().len()
}

#[test]
fn a_newer_layout_is_refused_by_name() {
    let cluster = Double::start();
    write_raw(
        &cluster,
        vec![b'p', 0, 1, 0],
        [&[1][..], &(KEY_FORMAT_VERSION + 1).to_be_bytes()].concat(),
    );
    let outcome = KvTikv::connect(cluster.options()).map(|_| ());
    let Err(Error::Unavailable(text)) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(text.contains("layout version 4"), "{text}");
    let other_tenant = KvTikvOptions {
        tenant: 1,
        ..cluster.options()
    };
    KvTikv::connect(other_tenant).unwrap();
}

#[test]
fn versions_1_and_2_of_the_layout_are_upgraded_by_the_first_server() {
    for older in [1, 2] {
        let cluster = Double::start();
        let version = vec![b'p', 0, 1, 0];
        write_raw(&cluster, version.clone(), vec![1, 0, 0, 0, older]);
        let server = KvTikv::connect(cluster.options()).unwrap();
        drop(server);
        let again = KvTikv::connect(cluster.options());
        assert!(again.is_ok(), "{:?}", again.map(|_| ()));
        // An older server would read another version now.
        write_raw(&cluster, version, vec![1, 0, 0, 0, 4]);
        assert!(KvTikv::connect(cluster.options()).is_err());
    }
}

#[test]
fn an_older_layout_is_not_upgraded_while_a_server_uses_it() {
    let cluster = Double::start();
    let server = cluster.server();
    let coordination = server.coordination().unwrap();
    // In this test a record is the end of a lease.
    let record = |lease: u64| {
        let now = coordination.now().unwrap();
        (now + lease).to_be_bytes()
    };
    let lease_in: porpoise_kv_tikv::LeaseOfRecord = |record| {
        let end = u64::from_be_bytes(record.try_into().unwrap());
        Some((end, "old:3306".to_owned()))
    };
    let options = KvTikvOptions {
        lease_of_record: Some(lease_in),
        ..cluster.options()
    };
    let alive = record(60_000);
    assert!(coordination.replace_record(7, None, Some(&alive)).unwrap());
    write_raw(&cluster, vec![b'p', 0, 1, 0], vec![1, 0, 0, 0, 2]);
    let outcome = KvTikv::connect(options.clone()).map(|_| ());
    let Err(Error::Unavailable(text)) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(text.contains("the server old:3306 uses it"), "{text}");
    let ended = record(0);
    let replaced = coordination.replace_record(7, Some(&alive), Some(&ended));
    assert!(replaced.unwrap());
    // The clock of the cluster moves in steps of 50 ms.
    std::thread::sleep(Duration::from_millis(120));
    assert!(KvTikv::connect(options).is_ok());
}

#[test]
fn a_value_in_an_unknown_frame_is_corrupt_not_data() {
    let cluster = Double::start();
    let server = cluster.server();
    let space = space(&server);
    let key = [&prefix(space)[..], b"k"].concat();
    write_raw(&cluster, key, b"\x09???".to_vec());
    let mut txn = begin(&server);
    let keys = [Key::new(space, b"k")];
    let outcome = txn.get(Read::CURRENT, &keys, &mut |_, _| {
        panic!("a corrupt value was visited")
    });
    assert!(matches!(outcome, Err(Error::Corrupt(_))), "{outcome:?}");
}

#[test]
fn tenants_do_not_see_each_other() {
    let cluster = Double::start();
    let one = cluster.server();
    let two: Arc<dyn Engine> = Arc::new(
        KvTikv::connect(KvTikvOptions {
            tenant: 70_000,
            ..cluster.options()
        })
        .unwrap(),
    );
    let catalog = SpaceId(1);
    set(&one, catalog, &[("k", "one")]);
    assert_eq!(get(&two, catalog, "k"), None);
    set(&two, catalog, &[("k", "two")]);
    assert_eq!(get(&one, catalog, "k").as_deref(), Some("one"));
    assert_eq!(space(&one), space(&two));
    assert_eq!(two.spaces().unwrap().len(), 1);
}

#[test]
fn an_empty_value_is_not_an_absent_one() {
    let cluster = AnyCluster::start();
    let server = cluster.server();
    let space = space(&server);
    set(&server, space, &[("", "empty key"), ("empty value", "")]);
    assert_eq!(get(&server, space, "").as_deref(), Some("empty key"));
    assert_eq!(get(&server, space, "empty value").as_deref(), Some(""));
    assert_eq!(get(&server, space, "absent"), None);
}

#[test]
fn a_drop_interrupted_by_a_crash_is_finished_at_the_next_start() {
    let cluster = Double::start();
    let server = cluster.server();
    let space = space(&server);
    set(&server, space, &[("a", "1"), ("b", "1")]);
    let impatient = cluster.impatient();
    // The specification goes first; deleting rows then fails.
    cluster.command("/refuse?method=KvScan&n=1000000");
    assert!(impatient.drop_spaces(&[space]).is_err());
    drop((server, impatient));
    cluster.command("/reset");
    assert_eq!(count_raw(&cluster, prefix(space)), 2);
    let server = cluster.server();
    let mut txn = begin(&server);
    let used = txn.put(Key::new(space, b"a"), b"2", Check::Blind);
    assert!(matches!(used, Err(Error::NoSuchSpace(_))), "{used:?}");
    let give_up = Instant::now() + Duration::from_secs(20);
    while count_raw(&cluster, prefix(space)) > 0 {
        assert!(Instant::now() < give_up, "rows of a dropped space remain");
        std::thread::sleep(Duration::from_millis(50));
    }
}
