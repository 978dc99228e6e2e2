//! The table of counters: to add one, add a line.

/// Name, labels and help of a counter.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Name of the family, complete, with unit suffix.
    pub name: &'static str,
    /// `key="value",...`, or empty.
    pub labels: &'static str,
    /// One line of explanation; the entries of a family are adjacent and repeat it.
    pub help: &'static str,
}

macro_rules! counters {
    ($($(#[$doc:meta])* $id:ident: $name:literal, $labels:literal, $help:literal;)*) => {
        /// One counter of the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Counter {
            $(#[doc = $help] $id,)*
        }

        /// All counters, in the order of [`Counter`].
        pub const COUNTERS: &[Entry] = &[
            $(Entry { name: $name, labels: $labels, help: $help },)*
        ];

        impl Counter {
            /// All counters, in order.
            pub const ALL: &[Counter] = &[$(Counter::$id,)*];
        }
    };
}

counters! {
    Accepted: "porpoise_connections_accepted_total", "", "Connections accepted.";
    Closed: "porpoise_connections_closed_total", "", "Connections closed.";
    RefusedMany: "porpoise_connections_refused_total", "reason=\"max_connections\"", "Connections refused.";
    LoginsEvicted: "porpoise_connections_refused_total", "reason=\"before_login\"", "Connections refused.";
    RefusedResources: "porpoise_connections_refused_total", "reason=\"resources\"", "Connections refused.";
    TimedOutLogin: "porpoise_connections_timed_out_total", "what=\"login\"", "Connections ended by a timeout.";
    TimedOutRequest: "porpoise_connections_timed_out_total", "what=\"request\"", "Connections ended by a timeout.";
    TimedOutIdle: "porpoise_connections_timed_out_total", "what=\"idle\"", "Connections ended by a timeout.";
    TimedOutWrite: "porpoise_connections_timed_out_total", "what=\"write\"", "Connections ended by a timeout.";
    Requests: "porpoise_requests_total", "", "Requests answered by all listeners.";
    BytesReceived: "porpoise_received_bytes_total", "", "Bytes received from clients.";
    BytesSent: "porpoise_sent_bytes_total", "", "Bytes sent to clients.";
    Polls: "porpoise_worker_polls_total", "", "Calls of epoll_wait.";
    HeldReplies: "porpoise_replies_held_total", "", "Replies deferred until the log was synced.";
    HandOvers: "porpoise_group_handovers_total", "", "Event loops handed over to a spare worker because a session was about to wait.";
    Retakes: "porpoise_group_retakes_total", "", "Event loops retaken from a worker whose session computed for more than 5 ms.";
    Demotions: "porpoise_worker_demotions_total", "", "Workers whose priority was lowered during a long computation.";
    Deferred: "porpoise_requests_deferred_total", "", "Requests deferred because max_running_statements was reached, or because their connection computes for long.";
    HangUps: "porpoise_waits_ended_by_hangup_total", "", "Waiting statements cancelled because their client had disconnected.";
    UnknownOutcomes: "porpoise_unknown_outcomes_total", "", "Connections closed with an unknown commit outcome.";
    LoginsDenied: "porpoise_logins_denied_total", "", "Logins refused for a wrong name or password.";
    PanicsCaught: "porpoise_session_panics_total", "", "Sessions ended by an internal error (a panic).";
    MemcachedGetHit: "porpoise_memcached_commands_total", "command=\"get\",result=\"hit\"", "Commands of the memcached listeners; for the get family, keys.";
    MemcachedGetMiss: "porpoise_memcached_commands_total", "command=\"get\",result=\"miss\"", "Commands of the memcached listeners; for the get family, keys.";
    MemcachedSet: "porpoise_memcached_commands_total", "command=\"set\",result=\"any\"", "Commands of the memcached listeners; for the get family, keys.";
    MemcachedTouchHit: "porpoise_memcached_commands_total", "command=\"touch\",result=\"hit\"", "Commands of the memcached listeners; for the get family, keys.";
    MemcachedTouchMiss: "porpoise_memcached_commands_total", "command=\"touch\",result=\"miss\"", "Commands of the memcached listeners; for the get family, keys.";
    MemcachedDeleteHit: "porpoise_memcached_commands_total", "command=\"delete\",result=\"hit\"", "Commands of the memcached listeners; for the get family, keys.";
    MemcachedDeleteMiss: "porpoise_memcached_commands_total", "command=\"delete\",result=\"miss\"", "Commands of the memcached listeners; for the get family, keys.";
    MemcachedIncrHit: "porpoise_memcached_commands_total", "command=\"incr\",result=\"hit\"", "Commands of the memcached listeners; for the get family, keys.";
    MemcachedIncrMiss: "porpoise_memcached_commands_total", "command=\"incr\",result=\"miss\"", "Commands of the memcached listeners; for the get family, keys.";
    MemcachedDecrHit: "porpoise_memcached_commands_total", "command=\"decr\",result=\"hit\"", "Commands of the memcached listeners; for the get family, keys.";
    MemcachedDecrMiss: "porpoise_memcached_commands_total", "command=\"decr\",result=\"miss\"", "Commands of the memcached listeners; for the get family, keys.";
    MemcachedCasHit: "porpoise_memcached_commands_total", "command=\"cas\",result=\"hit\"", "Commands of the memcached listeners; for the get family, keys.";
    MemcachedCasMiss: "porpoise_memcached_commands_total", "command=\"cas\",result=\"miss\"", "Commands of the memcached listeners; for the get family, keys.";
    MemcachedCasBadval: "porpoise_memcached_commands_total", "command=\"cas\",result=\"badval\"", "Commands of the memcached listeners; for the get family, keys.";
    MemcachedFlush: "porpoise_memcached_commands_total", "command=\"flush_all\",result=\"any\"", "Commands of the memcached listeners; for the get family, keys.";
    MemcachedStored: "porpoise_memcached_items_stored_total", "", "Items stored by memcached commands.";
    MemcachedGetExpired: "porpoise_memcached_gets_expired_total", "", "Keys read by memcached commands whose row had expired.";
    MemcachedEvictions: "porpoise_memcached_cache_evictions_total", "", "Items evicted from the memory cache.";
}
