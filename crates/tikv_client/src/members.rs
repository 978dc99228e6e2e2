//! The placement drivers, and which of them leads.
//!
//! Only the leader gives timestamps and knows regions. A leader that hangs cannot be recognized by an error: a *stopped* process
//! accepts connections and is silent, and the other members name it as the leader until its term in their common store ends. So
//! one task searches for the leader whenever a caller has none, or has waited too long for an answer of the one it has:
//!
//! ```text
//! caller   call -> A . . . 250 ms without an answer: doubt              B leads: the call is repeated there
//! search                   GetMembers -> A, B, C, every 200 ms      |
//!                          C: "A leads"        ignored              |
//!                          B: "B leads"        accepted  -----------+
//! ```
//!
//! Invariants:
//! 1. A member is accepted as the leader only when it names itself.
//! 2. A search waits for no member: it sends its requests at an interval, whether earlier ones are answered or not. Members
//!    answer late during an election.
//! 3. There is one search at a time. It ends only when a leader is found, so that callers with any deadline may
//!    wait for it.
//!
//! Rejected: accepting the first answer (a member with an outdated view names the stopped leader again, which costs a time limit
//! each time); forwarding by other members as in client-go (a leader that servers cannot reach is a fault of the network that
//! has to be repaired).

use crate::proto::{GetMembersRequest, GetMembersResponse, Member, ResponseHeader};
use crate::transport::{self, Channel, TlsOptions};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

/// Time after which a placement driver that does not answer is given up.
pub(crate) const ANSWER_TIME: Duration = Duration::from_millis(1_000);
/// Time without an answer after which a caller doubts that the leader still leads.
pub(crate) const DOUBT_TIME: Duration = Duration::from_millis(250);
/// Interval of the requests of a search.
const SEARCH_INTERVAL: Duration = Duration::from_millis(200);
/// Least time from a search that has confirmed the leader to the next one. Without it, a network over which answers are always
/// late would cost connections all the time.
const CONFIRMED_TIME: Duration = Duration::from_secs(1);

/// The leader of the placement drivers.
#[derive(Clone)]
pub(crate) struct Leader {
    address: String,
    /// A connection to it.
    pub(crate) channel: Channel,
}

/// End of a call to a leader without an answer.
pub(crate) enum CallEnd {
    /// Another member leads now.
    Replaced,
    /// The reason.
    Failed(String),
}

impl CallEnd {
    /// One line for people.
    pub(crate) fn describe(self) -> String {
        match self {
            CallEnd::Replaced => "another placement driver leads now".into(),
            CallEnd::Failed(why) => why,
        }
    }
}

struct Known {
    /// Addresses, `HOST:PORT`.
    addresses: Vec<String>,
    cluster_id: u64,
    /// The last reason for which a search has not found the leader.
    refusal: String,
}

/// The placement drivers of a cluster.
pub(crate) struct Members {
    known: Mutex<Known>,
    leader: watch::Sender<Option<Leader>>,
    /// Starts a search.
    doubt: Notify,
    tls: Option<TlsOptions>,
}

fn address_of(url: &str) -> String {
    let url = (url.strip_prefix("http://"))
        .or_else(|| url.strip_prefix("https://"))
        .unwrap_or(url);
    url.trim_end_matches('/').to_owned()
}

/// Fails if the header of an answer says that the request was not served.
pub(crate) fn check_header(header: Option<&ResponseHeader>) -> Result<(), String> {
    match header.and_then(|h| h.error.as_ref()) {
        Some(e) if e.kind != 0 => Err(format!("placement driver: {}", e.message)),
        _ => Ok(()),
    }
}

/// The members that the member at `address` knows, and the leader.
async fn request_members(
    address: String,
    channel: Channel,
) -> (String, Result<GetMembersResponse, String>) {
    let request = GetMembersRequest { header: None };
    let path = "/pdpb.PD/GetMembers";
    let answer = transport::unary(&channel, path, request, ANSWER_TIME).await;
    (address, answer)
}

impl Members {
    /// Placement drivers at these addresses; starts the task that searches. Sends no request yet.
    pub(crate) fn new(
        addresses: &[String],
        tls: Option<TlsOptions>,
        runtime: &tokio::runtime::Handle,
    ) -> Arc<Members> {
        let distinct: BTreeSet<String> = addresses.iter().map(|a| address_of(a)).collect();
        let members = Arc::new(Members {
            known: Mutex::new(Known {
                addresses: distinct.into_iter().collect(),
                cluster_id: 0,
                refusal: "no placement driver answers".into(),
            }),
            leader: watch::Sender::new(None),
            doubt: Notify::new(),
            tls,
        });
        runtime.spawn(search_when_in_doubt(members.clone()));
        members
    }

    /// Number of the cluster; 0 before the first leader was found.
    pub(crate) fn cluster_id(&self) -> u64 {
        self.known.lock().cluster_id
    }

    /// The leader, which is searched for until `deadline` if none is known.
    pub(crate) async fn leader(&self, deadline: Instant) -> Result<Leader, String> {
        let known = self.leader.borrow().clone();
        if let Some(leader) = known {
            return Ok(leader);
        }
        let mut leader = self.leader.subscribe();
        self.doubt.notify_one();
        let found = leader.wait_for(Option::is_some);
        let found = match tokio::time::timeout_at(deadline.into(), found).await {
            Ok(Ok(found)) => found.clone(),
            _ => None,
        };
        found.ok_or_else(|| self.known.lock().refusal.clone())
    }

    /// Forgets the leader if it is still this one.
    pub(crate) fn failed(&self, failed: &Leader) {
        let forgotten = self.leader.send_if_modified(|leader| {
            let is_same = (leader.as_ref()).is_some_and(|l| l.channel.is(&failed.channel));
            if is_same {
                *leader = None;
            }
            is_same
        });
        if forgotten {
            self.doubt.notify_one();
        }
    }

    /// Starts a search for the leader; calls use the present one meanwhile.
    pub(crate) fn doubt(&self) {
        self.doubt.notify_one();
    }

    /// Waits until another member leads.
    pub(crate) async fn replaced(&self, leader: &Leader) {
        let mut now = self.leader.subscribe();
        let is_another =
            |now: &Option<Leader>| now.as_ref().is_some_and(|n| n.address != leader.address);
        if now.wait_for(is_another).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits for the answer of a call to the leader, but not longer than it leads.
    pub(crate) async fn while_leading<T>(
        &self,
        leader: &Leader,
        call: impl Future<Output = Result<T, String>>,
    ) -> Result<T, CallEnd> {
        let mut call = pin!(call);
        tokio::select! {
            biased;
            answer = &mut call => return answer.map_err(CallEnd::Failed),
            () = tokio::time::sleep(DOUBT_TIME) => self.doubt(),
        }
        tokio::select! {
            biased;
            answer = &mut call => answer.map_err(CallEnd::Failed),
            () = self.replaced(leader) => Err(CallEnd::Replaced),
        }
    }

    /// Asks all members until one of them names itself as the leader.
    async fn search(&self) {
        let mut channels: Vec<(String, Channel)> = Vec::new();
        let mut requests = JoinSet::new();
        let mut interval = tokio::time::interval(SEARCH_INTERVAL);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = interval.tick() => {
                    self.connect(&mut channels);
                    for (address, channel) in &channels {
                        requests.spawn(request_members(address.clone(), channel.clone()));
                    }
                }
                Some(answer) = requests.join_next() => {
                    let Ok((address, answer)) = answer else { continue };
                    match answer.and_then(|answer| self.learn(&address, &answer)) {
                        Ok(()) => return,
                        Err(why) => self.known.lock().refusal = why,
                    }
                    if self.known.lock().addresses.len() > channels.len() {
                        interval.reset_immediately();
                    }
                }
            }
        }
    }

    /// Adds channels to members that have none yet.
    fn connect(&self, channels: &mut Vec<(String, Channel)>) {
        let mut guard = self.known.lock();
        let Known {
            addresses, refusal, ..
        } = &mut *guard;
        addresses.retain(|address| {
            if channels.iter().any(|(a, _)| a == address) {
                return true;
            }
            match transport::channel(address, ANSWER_TIME, self.tls.as_ref()) {
                Ok(channel) => {
                    channels.push((address.clone(), channel));
                    true
                }
                Err(why) => {
                    *refusal = why;
                    false
                }
            }
        });
    }

    /// Takes over the members that the member at `address` has named, and that member as the leader if it has named itself.
    fn learn(&self, address: &str, answer: &GetMembersResponse) -> Result<(), String> {
        check_header(answer.header.as_ref())?;
        let cluster = answer.header.as_ref().map_or(0, |h| h.cluster_id);
        let urls = |member: &Member| -> Vec<String> {
            member.client_urls.iter().map(|u| address_of(u)).collect()
        };
        let mut known = self.known.lock();
        if known.cluster_id != 0 && cluster != known.cluster_id {
            return Err(format!(
                "{address} belongs to cluster {cluster}, not to cluster {}",
                known.cluster_id
            ));
        }
        let leader = answer.leader.as_ref().map(urls).unwrap_or_default();
        let named = answer.members.iter().flat_map(urls);
        for address in named.chain(leader.first().cloned()) {
            if !known.addresses.contains(&address) {
                known.addresses.push(address);
            }
        }
        let Some(name) = leader.first() else {
            return Err("the placement drivers have no leader at present".into());
        };
        if !leader.iter().any(|l| l == address) {
            return Err(format!(
                "{address} names {name} as the leader of the placement drivers, which does not answer"
            ));
        }
        known.cluster_id = cluster;
        drop(known);
        self.publish(address)
    }

    /// Makes the member at `address` the leader.
    fn publish(&self, address: &str) -> Result<(), String> {
        let channel = transport::channel(address, ANSWER_TIME, self.tls.as_ref())?;
        self.leader.send_if_modified(|leader| {
            let is_new = leader.as_ref().is_none_or(|l| l.address != address);
            if is_new {
                *leader = Some(Leader {
                    address: address.to_owned(),
                    channel,
                });
            }
            is_new
        });
        Ok(())
    }
}

/// Searches for the leader whenever callers have none or doubt it, until the client's runtime ends.
async fn search_when_in_doubt(members: Arc<Members>) {
    let mut confirmed: Option<Instant> = None;
    let mut leader = members.leader.subscribe();
    loop {
        members.doubt.notified().await;
        if let Some(at) = confirmed {
            let earliest = (at + CONFIRMED_TIME).into();
            // A leader that has failed is replaced at once.
            let _ = tokio::time::timeout_at(earliest, leader.wait_for(Option::is_none)).await;
        }
        members.search().await;
        confirmed = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(url: &str) -> Member {
        Member {
            client_urls: vec![url.to_owned()],
            ..Member::default()
        }
    }

    fn answer(cluster_id: u64, leader: Option<&str>) -> GetMembersResponse {
        GetMembersResponse {
            header: Some(ResponseHeader {
                cluster_id,
                error: None,
            }),
            members: vec![member("http://a:1"), member("http://b:1/")],
            leader: leader.map(member),
        }
    }

    #[test]
    fn a_member_is_accepted_as_the_leader_only_when_it_names_itself() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let handle = tokio::runtime::Handle::current();
            let addresses = ["http://a:1".to_owned(), "a:1".to_owned()];
            let members = Members::new(&addresses, None, &handle);
            let leads = || members.leader.borrow().as_ref().map(|l| l.address.clone());
            assert!(members.learn("a:1", &answer(7, None)).is_err());
            let named = members.learn("a:1", &answer(7, Some("http://b:1")));
            assert!(named.is_err_and(|why| why.contains("a:1 names b:1")));
            assert_eq!(leads(), None);
            // Members that an answer lists are asked, too.
            assert_eq!(members.known.lock().addresses, ["a:1", "b:1"]);
            members
                .learn("b:1", &answer(7, Some("http://b:1")))
                .unwrap();
            assert_eq!(leads().as_deref(), Some("b:1"));
            let other = members.learn("a:1", &answer(8, Some("http://a:1")));
            assert!(other.is_err_and(|why| why.contains("belongs to cluster 8")));
            let soon = Instant::now() + Duration::from_secs(10);
            let leader = members.leader(soon).await.unwrap();
            members.failed(&leader);
            assert_eq!(leads(), None);
        });
    }
}
