//! Starts the threads of the server and applies one policy to their panics.
//!
//! Every thread has a [`Role`]. A panic that reaches the top of a thread either
//! ends the process with [`PANIC_EXIT_STATUS`], or restarts the thread's work;
//! [`Role::on_panic`] decides. A thread that owns state on which other threads rely cannot be
//! replaced: a server without that thread would accept work that it never finishes.
//!
//! Invariants:
//! 1. No thread of the server ends by a panic while the process continues.
//! 2. Before the process ends, a message on standard error names the role, even
//!    with logging switched off. The panic hook has logged the source location.
//! 3. A role is restarted only if its state lives outside the thread and is
//!    consistent between any two steps.
//!
//! Rejected: `panic = "abort"`, because a panic in one client's session would end the process.
//! Rejected: replacing a worker, the log thread or the checkpointer after a panic, because the
//! state on its stack is lost.

use crate::sync::thread::{Builder, JoinHandle};
use std::any::Any;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Exit status of a process that a panic has ended (`EX_SOFTWARE`).
pub const PANIC_EXIT_STATUS: i32 = 70;

/// Pause before a restart. It bounds the CPU time and the log lines of a thread
/// that panics at every start.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

static RESTARTS: AtomicU64 = AtomicU64::new(0);

/// Policy for a panic that reaches the top of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnPanic {
    /// The process ends at once.
    EndProcess,
    /// The thread restarts its work.
    Restart,
}

macro_rules! roles {
    ($($id:ident: $name:literal, $policy:ident, $doc:literal;)*) => {
        /// A thread's task in the server.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Role {
            $(#[doc = $doc] $id,)*
        }

        impl Role {
            /// All roles.
            pub const ALL: &[Role] = &[$(Role::$id,)*];

            /// Name of the thread, as the system and log lines show it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Role::$id => $name,)*
                }
            }

            /// Policy for a panic.
            pub fn on_panic(self) -> OnPanic {
                match self {
                    $(Role::$id => OnPanic::$policy,)*
                }
            }
        }
    };
}

// docs/guide/health.md shows this table to operators.
roles! {
    Main: "main", EndProcess, "Start and shutdown.";
    Signals: "signals", EndProcess, "Waits for a second signal during a shutdown.";
    Interrupt: "interrupt", EndProcess, "Ends the statement of `porpoise sql` at Ctrl-C.";
    DemoLoad: "demo-load", EndProcess, "Reads and writes in `porpoise demo --with-load`.";
    Acceptor: "accept", EndProcess, "Accepts connections.";
    Worker: "worker", EndProcess, "Runs a group's event loop; a panic of a session ends that session only.";
    Supervisor: "supervisor", EndProcess, "Retakes event loops from workers that compute for long.";
    Log: "log", EndProcess, "Writes and syncs the log.";
    LogSpare: "log-spare", EndProcess, "Keeps an empty log segment ready.";
    LogHead: "log-head", EndProcess, "Records how far the log reaches in the head file.";
    Checkpointer: "checkpointer", EndProcess, "Writes checkpoints.";
    SchemaChange: "schema-change", EndProcess, "Undoes the unfinished schema changes of a server of the cluster that was lost.";
    Backup: "backup", EndProcess, "Makes a backup; a panic ends that backup only.";
    Archiver: "archiver", EndProcess, "Copies the log to the archive.";
    BinlogWriter: "binlog-writer", EndProcess, "Writes the binary log from annotations of commits.";
    Reclaimer: "reclaimer", EndProcess, "Removes versions that no snapshot sees.";
    Http: "http", Restart, "Serves /health, /metrics and the console.";
    Rest: "rest", Restart, "Accepts REST connections and passes their requests to its threads.";
    ConsoleSampler: "console-sampler", Restart, "Records throughput and latency for the console.";
    TraceExporter: "trace-exporter", Restart, "Sends traces of statements to their receiver.";
    SqlTimer: "sql-timer", Restart, "Ends statements at their deadline.";
    EventScheduler: "event-scheduler", Restart, "Starts events at their times.";
    EventWorker: "event", EndProcess, "Runs an event; a panic of the event ends that run only.";
    Replica: "replica", EndProcess, "Follows a source; a panic ends the server, which goes on where it was.";
    ReplicaWorker: "replica-worker", EndProcess, "Applies transactions of a source; after a panic the server has to be restarted, and continues where it was.";
    Failover: "failover", EndProcess, "Elects the leader of the group, follows it, or leads.";
    FailoverAcceptor: "fo-accept", EndProcess, "Accepts connections of other members of the group.";
    FailoverReader: "fo-read", EndProcess, "Reads the messages of another member of the group.";
    FailoverSender: "fo-send", EndProcess, "Sends messages to another member of the group.";
    FailoverClone: "fo-clone", EndProcess, "Copies the data of the leader of the group.";
    ClusterFollower: "cluster-follower", Restart, "Renews the server's lease, and follows definitions that other servers change.";
    TtlReaper: "ttl-reaper", Restart, "Deletes expired rows of tables with TTL.";
    MemcachedReaper: "memcached-reaper", Restart, "Deletes expired rows.";
    MemcachedFlush: "flush_all", Restart, "Executes a delayed flush_all.";
}

/// Number of restarts after a panic, since the start of the process.
pub fn restarts() -> u64 {
    RESTARTS.load(Ordering::Relaxed)
}

/// Message of a panic.
pub fn panic_message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

/// Starts a thread whose panic ends the process.
///
/// # Errors
/// The system's error when no thread can be created.
pub fn spawn(role: Role, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    spawn_sized(role, None, work)
}

/// Like [`spawn`], with a stack of `stack` bytes.
///
/// # Errors
/// The system's error when no thread can be created.
pub fn spawn_sized(
    role: Role,
    stack: Option<usize>,
    work: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    debug_assert_eq!(role.on_panic(), OnPanic::EndProcess, "{role:?}");
    let mut builder = Builder::new().name(role.name().to_owned());
    if let Some(stack) = stack {
        builder = builder.stack_size(stack);
    }
    builder.spawn(move || guard(role, work))
}

/// Starts a thread whose work restarts after a panic.
///
/// # Errors
/// The system's error when no thread can be created.
pub fn spawn_restarting(
    role: Role,
    mut work: impl FnMut() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    debug_assert_eq!(role.on_panic(), OnPanic::Restart, "{role:?}");
    let restarting = move || {
        while let Err(panic) = catch_unwind(AssertUnwindSafe(&mut work)) {
            RESTARTS.fetch_add(1, Ordering::Relaxed);
            report_panic(role, &*panic, "the thread is restarted");
            std::thread::sleep(RESTART_PAUSE);
        }
    };
    Builder::new()
        .name(role.name().to_owned())
        .spawn(restarting)
}

/// Runs `work` on the calling thread; a panic ends the process.
pub fn guard<R>(role: Role, work: impl FnOnce() -> R) -> R {
    if cfg!(shuttle) {
        // The scheduler reports panics itself.
        return work();
    }
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        report_panic(role, &*panic, "the server ends, exit status 70");
        std::process::exit(PANIC_EXIT_STATUS)
    })
}

/// Writes one line about a panic to standard error.
fn report_panic(role: Role, panic: &(dyn Any + Send), consequence: &str) {
    let (name, message) = (role.name(), panic_message(panic));
    let line = format!("porpoise: internal error in thread {name}: {message}; {consequence}\n");
    // Standard error may be closed.
    let _ = io::stderr().lock().write_all(line.as_bytes());
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use std::process::Command;

    const CHILD: &str = "PORPOISE_TEST_THREADS_CHILD";

    /// Not a test by itself: the process that
    /// `a_panic_ends_the_process_with_its_status_and_a_message` starts.
    #[test]
    fn child() {
        let Ok(name) = std::env::var(CHILD) else {
            return;
        };
        let role = *Role::ALL.iter().find(|role| role.name() == name).unwrap();
        let thread = spawn(role, || panic!("planted")).unwrap();
        let _ = thread.join();
        // Not reached: `spawn` ends the process first.
        std::process::exit(3);
    }

    #[test]
    fn a_panic_ends_the_process_with_its_status_and_a_message() {
        let ending = |role: &&Role| role.on_panic() == OnPanic::EndProcess;
        let roles: Vec<_> = Role::ALL.iter().filter(ending).collect();
        assert!(roles.len() >= 8);
        for role in roles {
            let output = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "threads::tests::child", "--nocapture"])
                .env(CHILD, role.name())
                .output()
                .unwrap();
            assert_eq!(output.status.code(), Some(PANIC_EXIT_STATUS), "{role:?}");
            let errors = String::from_utf8_lossy(&output.stderr);
            let line = format!(
                "porpoise: internal error in thread {}: planted; the server ends, exit status 70",
                role.name()
            );
            assert!(errors.contains(&line), "{errors}");
        }
    }

    #[test]
    fn a_restarted_role_keeps_its_state() {
        let before = restarts();
        let mut runs = 0;
        let (send, receive) = std::sync::mpsc::channel();
        let thread = spawn_restarting(Role::MemcachedReaper, move || {
            runs += 1;
            let name = std::thread::current().name().map(str::to_owned);
            send.send((runs, name)).unwrap();
            assert!(runs > 1, "planted");
        });
        thread.unwrap().join().unwrap();
        let name = || Some("memcached-reaper".to_owned());
        let seen: Vec<_> = receive.iter().collect();
        assert_eq!(seen, [(1, name()), (2, name())]);
        assert!(restarts() > before);
    }

    #[test]
    fn roles_have_names_of_their_own() {
        let names: std::collections::BTreeSet<_> = Role::ALL.iter().map(|r| r.name()).collect();
        assert_eq!(names.len(), Role::ALL.len());
        // Linux truncates thread names to 15 bytes, so "memcached-reaper" loses one letter.
        assert!(names.iter().all(|name| name.len() <= 16));
    }
}
