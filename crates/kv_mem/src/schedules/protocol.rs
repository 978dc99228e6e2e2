//! The read protocol of the index under loom: all interleavings and all values that relaxed loads
//! may return, of a writer and a reader.
//!
//! The code under test is `index/optimistic.rs`, on small nodes: a tree of one inner node and two
//! leaves with at most two keys. `LOOM_MAX_PREEMPTIONS` bounds the interleavings (default 3).

use crate::index::optimistic::{Arrival, Descent, Restart, Version, Word, descend};
use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use loom::sync::{Arc, Mutex};
use loom::thread;

impl Word for AtomicU64 {
    fn load(&self, order: Ordering) -> u64 {
        AtomicU64::load(self, order)
    }

    fn store(&self, value: u64, order: Ordering) {
        AtomicU64::store(self, value, order);
    }

    fn fence(order: Ordering) {
        fence(order);
    }
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(model);
}

fn version() -> Version<AtomicU64> {
    Version::new(AtomicU64::new(0))
}

/// Two fields of one node that every change makes equal.
#[test]
fn a_validated_read_is_one_state() {
    check(|| {
        let node = Arc::new((version(), AtomicUsize::new(0), AtomicUsize::new(0)));
        let writer = {
            let node = node.clone();
            thread::spawn(move || {
                for n in 1..=2 {
                    node.0.begin();
                    node.1.store(n, Ordering::Relaxed);
                    node.2.store(n, Ordering::Relaxed);
                    node.0.end();
                }
            })
        };
        if let Some(seen) = node.0.stable() {
            let first = node.1.load(Ordering::Relaxed);
            let second = node.2.load(Ordering::Relaxed);
            if node.0.is_unchanged(seen) {
                assert_eq!(first, second, "half of a change was read");
                assert!(
                    first as u64 * 2 >= seen,
                    "a state older than its version was read"
                );
            }
        }
        writer.join().unwrap();
    });
}

/// Maximum number of a leaf's keys, and of the inner node's children.
const WIDTH: usize = 2;

/// A node: a leaf's keys, or an inner node's separators and child numbers. 0 is not a key.
struct Node {
    version: Version<AtomicU64>,
    is_leaf: bool,
    count: AtomicUsize,
    keys: [AtomicUsize; WIDTH],
    children: [AtomicUsize; WIDTH],
}

impl Node {
    fn new(is_leaf: bool, keys: &[usize], first_child: usize) -> Node {
        let key = |at: usize| AtomicUsize::new(keys.get(at).copied().unwrap_or(0));
        Node {
            version: version(),
            is_leaf,
            count: AtomicUsize::new(keys.len()),
            keys: [key(0), key(1)],
            children: [AtomicUsize::new(first_child), AtomicUsize::new(0)],
        }
    }

    fn keys(&self) -> impl Iterator<Item = usize> {
        let count = self.count.load(Ordering::Relaxed).min(WIDTH);
        self.keys[..count]
            .iter()
            .map(|key| key.load(Ordering::Relaxed))
    }
}

const INNER: usize = 0;
const LEFT: usize = 1;
const RIGHT: usize = 2;

/// More descents than one change can disturb: a change is noticed at the root, at each of two
/// marked nodes, and once more at a parent whose mark was not seen before.
const ATTEMPTS: usize = 5;

/// All nodes, which link to each other by index, and the tree's root.
struct Tree {
    nodes: [Node; 3],
    root: AtomicUsize,
    writer: Mutex<()>,
}

/// A reader's descent to the leaf of a key.
struct Search<'g> {
    tree: &'g Tree,
    key: usize,
}

impl<'g> Descent<'g> for Search<'g> {
    type Node = Node;
    type Word = AtomicU64;
    type Place = ();

    fn version(node: &'g Node) -> &'g Version<AtomicU64> {
        &node.version
    }

    fn wait_stable(&self, node: &'g Node) -> u64 {
        match node.version.stable() {
            Some(version) => version,
            None => {
                drop(self.tree.writer.lock().unwrap());
                node.version.stable().expect("the one change has ended")
            }
        }
    }

    fn root(&self) -> Option<&'g Node> {
        self.tree.nodes.get(self.tree.root.load(Ordering::Acquire))
    }

    fn is_root(&self, node: &'g Node) -> bool {
        let root = &self.tree.nodes[self.tree.root.load(Ordering::Acquire)];
        std::ptr::eq(root, node)
    }

    fn step(&self, node: &'g Node, (): &()) -> Result<Option<(&'g Node, ())>, Restart> {
        if node.is_leaf {
            return Ok(None);
        }
        let below = node.keys().take_while(|separator| *separator <= self.key);
        let child = node.children[below.count().min(WIDTH - 1)].load(Ordering::Acquire);
        Ok(Some((&self.tree.nodes[child], ())))
    }
}

impl Tree {
    /// Creates a tree with the keys 1 and 2 in one leaf, which is below an inner node or the root.
    fn new(root: usize) -> Arc<Tree> {
        Arc::new(Tree {
            nodes: [
                Node::new(false, &[], LEFT),
                Node::new(true, &[1, 2], 0),
                Node::new(true, &[], 0),
            ],
            root: AtomicUsize::new(root),
            writer: Mutex::new(()),
        })
    }

    /// Whether a key is found, by the steps of `Tree::read` in `index/tree.rs`.
    fn finds(&self, key: usize) -> bool {
        for _ in 0..ATTEMPTS {
            let search = Search { tree: self, key };
            let Ok(met) = descend(&search, ()) else {
                continue;
            };
            let Arrival { leaf, version, .. } = met.expect("there is a root");
            let found = leaf.keys().any(|found| found == key);
            if leaf.version.is_unchanged(version) {
                return found;
            }
        }
        // One change makes at most two descents restart.
        panic!("one change disturbed three descents");
    }

    /// Moves key 2 to the right leaf, in the order of `split` in `index/tree/change.rs`.
    fn split(&self) {
        let [inner, left, right] = &self.nodes;
        inner.version.begin();
        left.version.begin();
        right.keys[0].store(2, Ordering::Release);
        left.keys[1].store(0, Ordering::Release);
        right.count.store(1, Ordering::Relaxed);
        left.count.store(1, Ordering::Relaxed);
        inner.keys[0].store(2, Ordering::Release);
        inner.children[1].store(RIGHT, Ordering::Release);
        inner.count.store(1, Ordering::Relaxed);
        left.version.end();
        inner.version.end();
    }
}

#[test]
fn a_reader_finds_a_key_that_a_split_moves() {
    check(|| {
        let tree = Tree::new(INNER);
        let writer = {
            let tree = tree.clone();
            thread::spawn(move || {
                let _writing = tree.writer.lock().unwrap();
                tree.split();
            })
        };
        assert!(tree.finds(2), "the key was missed");
        writer.join().unwrap();
    });
}

#[test]
fn a_reader_finds_a_key_while_the_root_grows() {
    check(|| {
        let tree = Tree::new(LEFT);
        let writer = {
            let tree = tree.clone();
            thread::spawn(move || {
                let _writing = tree.writer.lock().unwrap();
                tree.root.store(INNER, Ordering::Release);
                tree.split();
            })
        };
        assert!(tree.finds(2), "the key was missed");
        writer.join().unwrap();
    });
}
