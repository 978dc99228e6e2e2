//! Scans: pages of the cluster at a timestamp, with the own writes merged in.
//!
//! A page covers a part of the range: all of it if the page is not full, otherwise up to its last key.
//! Own writes of that part are merged, then the next page begins after it. A page requests only from the regions that
//! it needs. The first page of a scan with a limit has that number of entries, if they are expected to fit (by the size of
//! values read lately); other scans begin with small pages, which grow while entries are small.

use crate::cluster::Cluster;
use crate::fault::read_error;
use crate::keys::unframe;
use crate::writes::Writes;
use porpoise_kv::{Result, ScanEnd, ScanVisitor, StatementMark};
use porpoise_tikv_client::{Call, PageRequest, Pairs};
use std::cmp::Ordering;

const FIRST_PAGE: u32 = 64;
const LARGEST_PAGE: u32 = 1024;
/// Target size of a page in bytes.
const PAGE_BYTES: usize = 1 << 20;

/// A range in keys of the cluster.
pub(crate) struct KeyRange {
    pub(crate) start: Vec<u8>,
    pub(crate) end: Vec<u8>,
    /// Bytes in front of the engine's key.
    pub(crate) prefix: usize,
    pub(crate) reverse: bool,
}

/// Source of a scan: the cluster and the timestamp.
pub(crate) struct Source<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) call: Call<'a>,
    pub(crate) ts: u64,
    pub(crate) writes: &'a Writes,
    pub(crate) mark: StatementMark,
}

struct PageSize(u32);

impl PageSize {
    /// Size of the first page of a scan with a limit; `fitting` entries are expected to fit a page.
    fn first(limit: usize, fitting: usize) -> PageSize {
        match u32::try_from(limit) {
            Ok(limit) if limit <= LARGEST_PAGE => {
                let fitting = u32::try_from(fitting).unwrap_or(LARGEST_PAGE);
                PageSize(limit.min(fitting.max(FIRST_PAGE)))
            }
            _ => PageSize(FIRST_PAGE),
        }
    }

    fn adapt(&mut self, entries: usize, bytes: usize) {
        let average = bytes / entries.max(1) + 1;
        let fitting = u32::try_from(PAGE_BYTES / average).unwrap_or(u32::MAX);
        self.0 = (self.0.saturating_mul(4))
            .min(fitting)
            .clamp(4, LARGEST_PAGE);
    }
}

impl Source<'_> {
    /// A page of `start..end`, and whether there may be more.
    fn fetch(
        &self,
        page_size: &mut PageSize,
        start: &[u8],
        end: &[u8],
        reverse: bool,
        wanted: usize,
    ) -> Result<(Pairs, bool)> {
        let wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
        let page = PageRequest {
            start: start.to_vec(),
            end: end.to_vec(),
            limit: page_size.0.min(wanted).max(1),
            reverse,
            keys_only: false,
        };
        let client = &self.cluster.client;
        let pairs = client.page(self.call, self.ts, &page).map_err(read_error)?;
        let bytes = pairs.iter().map(|(k, v)| k.len() + v.len()).sum();
        page_size.adapt(pairs.len(), bytes);
        let more = pairs.len() >= page.limit as usize;
        Ok((pairs, more))
    }

    /// Walks the ranges; see [`porpoise_kv::Txn::scan`].
    pub(crate) fn scan(
        &self,
        ranges: &[KeyRange],
        limit: usize,
        visit: &mut ScanVisitor<'_>,
    ) -> Result<ScanEnd> {
        let mut left = limit;
        let fitting = PAGE_BYTES / (self.cluster.client.average_value() + 1);
        let mut page_size = PageSize::first(limit, fitting);
        for (range, s) in ranges.iter().enumerate() {
            let (mut start, mut end) = (s.start.clone(), s.end.clone());
            while left > 0 && start < end {
                let (pairs, more) = self.fetch(&mut page_size, &start, &end, s.reverse, left)?;
                let border = pairs.last().filter(|_| more).map(|(key, _)| key.clone());
                let (from, to) = match border {
                    None => (start.clone(), end.clone()),
                    Some(key) if s.reverse => (key, end.clone()),
                    Some(mut key) => {
                        key.push(0);
                        (start.clone(), key)
                    }
                };
                let mut stopped = None;
                merge(
                    &pairs,
                    self.own(&from, &to, s.reverse),
                    s.reverse,
                    |key, value| {
                        let key = key.get(s.prefix..).unwrap_or_default();
                        left -= 1;
                        if visit(range, key, value).is_break() || left == 0 {
                            stopped = Some(key.to_vec());
                        }
                        stopped.is_none()
                    },
                )?;
                if let Some(key) = stopped {
                    return Ok(ScanEnd::Stopped { range, key });
                }
                if !more {
                    break;
                }
                if s.reverse {
                    end = from;
                } else {
                    start = to;
                }
            }
        }
        Ok(ScanEnd::Done)
    }

    fn own(&self, from: &[u8], to: &[u8], reverse: bool) -> Vec<(&[u8], Option<&[u8]>)> {
        let own = self.writes.range(from, to, self.mark);
        if reverse {
            own.rev().collect()
        } else {
            own.collect()
        }
    }
}

/// Calls `each` for the union of committed pairs and own writes, in order, until it ends the scan.
/// Own writes replace pairs, own deletions hide them.
fn merge(
    pairs: &[(Vec<u8>, Vec<u8>)],
    own: Vec<(&[u8], Option<&[u8]>)>,
    reverse: bool,
    mut each: impl FnMut(&[u8], &[u8]) -> bool,
) -> Result<()> {
    let mut pairs = pairs.iter().peekable();
    let mut own = own.into_iter().peekable();
    loop {
        let order = match (pairs.peek(), own.peek()) {
            (None, None) => return Ok(()),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((there, _)), Some((here, _))) => {
                let order = there.as_slice().cmp(here);
                if reverse { order.reverse() } else { order }
            }
        };
        if order != Ordering::Greater {
            let Some((key, value)) = pairs.next() else {
                return Ok(());
            };
            if order == Ordering::Less && !each(key, unframe(value)?) {
                return Ok(());
            }
        }
        if order != Ordering::Less
            && let Some((key, Some(value))) = own.next()
            && !each(key, value)
        {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::frame;

    fn merged(reverse: bool) -> Vec<String> {
        let mut pairs: Pairs = ["a", "c", "d", "f"]
            .iter()
            .map(|k| (k.as_bytes().to_vec(), frame(b"there")))
            .collect();
        let mut own: Vec<(&[u8], Option<&[u8]>)> = vec![
            (b"b", Some(b"own")),
            (b"c", Some(b"own")),
            (b"d", None),
            (b"e", None),
            (b"g", Some(b"own")),
        ];
        if reverse {
            pairs.reverse();
            own.reverse();
        }
        let mut seen = Vec::new();
        merge(&pairs, own, reverse, |k, v| {
            seen.push(format!(
                "{}={}",
                String::from_utf8_lossy(k),
                String::from_utf8_lossy(v)
            ));
            true
        })
        .unwrap();
        seen
    }

    #[test]
    fn own_writes_win_and_own_deletions_hide_both_ways() {
        let mut expected = vec!["a=there", "b=own", "c=own", "f=there", "g=own"];
        assert_eq!(merged(false), expected);
        expected.reverse();
        assert_eq!(merged(true), expected);
    }

    #[test]
    fn the_first_page_is_what_a_limited_scan_wants_if_that_fits() {
        let cases = [
            (usize::MAX, 5_000, 64),
            (1_000_000, 5_000, 64),
            (1, 5_000, 1),
            (1024, 5_000, 1024),
            (1024, 256, 256),
            (1024, 1, 64),
            (10, 1, 10),
        ];
        for (limit, fitting, expected) in cases {
            assert_eq!(
                PageSize::first(limit, fitting).0,
                expected,
                "{limit} {fitting}"
            );
        }
    }

    #[test]
    fn pages_grow_while_entries_are_small_and_shrink_when_they_are_not() {
        let mut page_size = PageSize(FIRST_PAGE);
        for _ in 0..10 {
            page_size.adapt(100, 5_000);
        }
        assert_eq!(page_size.0, LARGEST_PAGE);
        page_size.adapt(10, 10 << 20);
        assert_eq!(page_size.0, 4);
    }
}
