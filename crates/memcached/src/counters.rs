//! The table of the listeners' counters. To add a counter, add a line here, and one to [`STATS`] if
//! `stats` reports it.

porpoise_base::counters! {
    GetHit: "porpoise_memcached_commands_total", "command=\"get\",result=\"hit\"", "Commands of the memcached listeners; for the get family, keys.";
    GetMiss: "porpoise_memcached_commands_total", "command=\"get\",result=\"miss\"", "Commands of the memcached listeners; for the get family, keys.";
    Set: "porpoise_memcached_commands_total", "command=\"set\",result=\"any\"", "Commands of the memcached listeners; for the get family, keys.";
    TouchHit: "porpoise_memcached_commands_total", "command=\"touch\",result=\"hit\"", "Commands of the memcached listeners; for the get family, keys.";
    TouchMiss: "porpoise_memcached_commands_total", "command=\"touch\",result=\"miss\"", "Commands of the memcached listeners; for the get family, keys.";
    DeleteHit: "porpoise_memcached_commands_total", "command=\"delete\",result=\"hit\"", "Commands of the memcached listeners; for the get family, keys.";
    DeleteMiss: "porpoise_memcached_commands_total", "command=\"delete\",result=\"miss\"", "Commands of the memcached listeners; for the get family, keys.";
    IncrHit: "porpoise_memcached_commands_total", "command=\"incr\",result=\"hit\"", "Commands of the memcached listeners; for the get family, keys.";
    IncrMiss: "porpoise_memcached_commands_total", "command=\"incr\",result=\"miss\"", "Commands of the memcached listeners; for the get family, keys.";
    DecrHit: "porpoise_memcached_commands_total", "command=\"decr\",result=\"hit\"", "Commands of the memcached listeners; for the get family, keys.";
    DecrMiss: "porpoise_memcached_commands_total", "command=\"decr\",result=\"miss\"", "Commands of the memcached listeners; for the get family, keys.";
    CasHit: "porpoise_memcached_commands_total", "command=\"cas\",result=\"hit\"", "Commands of the memcached listeners; for the get family, keys.";
    CasMiss: "porpoise_memcached_commands_total", "command=\"cas\",result=\"miss\"", "Commands of the memcached listeners; for the get family, keys.";
    CasBadval: "porpoise_memcached_commands_total", "command=\"cas\",result=\"badval\"", "Commands of the memcached listeners; for the get family, keys.";
    Flush: "porpoise_memcached_commands_total", "command=\"flush_all\",result=\"any\"", "Commands of the memcached listeners; for the get family, keys.";
    Stored: "porpoise_memcached_items_stored_total", "", "Items stored by memcached commands.";
    GetExpired: "porpoise_memcached_gets_expired_total", "", "Keys read by memcached commands whose row had expired.";
    Evictions: "porpoise_memcached_cache_evictions_total", "", "Items evicted from the memory cache.";
}

/// Counters with their names in `stats`, in its order.
pub(crate) const STATS: &[(&str, Counter)] = &[
    ("get_hits", Counter::GetHit),
    ("get_misses", Counter::GetMiss),
    ("cmd_set", Counter::Set),
    ("cmd_flush", Counter::Flush),
    ("delete_misses", Counter::DeleteMiss),
    ("delete_hits", Counter::DeleteHit),
    ("incr_misses", Counter::IncrMiss),
    ("incr_hits", Counter::IncrHit),
    ("decr_misses", Counter::DecrMiss),
    ("decr_hits", Counter::DecrHit),
    ("cas_misses", Counter::CasMiss),
    ("cas_hits", Counter::CasHit),
    ("cas_badval", Counter::CasBadval),
    ("touch_hits", Counter::TouchHit),
    ("touch_misses", Counter::TouchMiss),
    ("get_expired", Counter::GetExpired),
    ("total_items", Counter::Stored),
    ("evictions", Counter::Evictions),
];
