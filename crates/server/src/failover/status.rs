//! The group as operators and proxies see it: SHOW STATUS, metrics, and `performance_schema.replication_group_members`.

use super::node::{GroupStatus, MemberRole, MemberStatus, Node};
use crate::standby::epoch::Epochs;
use porpoise_binlog::BinaryLog;
use porpoise_kv::Stat;
use porpoise_replication::election::MemberId;
use porpoise_sql::SqlServer;
use porpoise_sql::replica::{Group, GroupMember, GroupMemberRole, GroupMemberState};
use std::sync::Arc;

/// Lets SQL show the group.
pub fn provide(sql: &SqlServer, node: &Arc<Node>, epochs: Arc<Epochs>, binlog: Arc<BinaryLog>) {
    let shown = Arc::downgrade(node);
    sql.provide_status(Box::new(move || {
        shown
            .upgrade()
            .map_or_else(Vec::new, |node| variables(&node.status()))
    }));
    let shown = Arc::downgrade(node);
    sql.provide_group(Box::new(move || {
        let node = shown.upgrade()?;
        let status = node.status();
        let leads = status.role == MemberRole::Leader;
        let behind = |id| binlog.transactions_behind(id).filter(|_| leads);
        Some(group(&status, epochs.is_writable(), &behind))
    }));
}

/// The group in the form of MySQL's group replication. `is_writable`: whether this server takes writes; `behind`: the number of
/// transactions that a member lacks.
fn group(
    status: &GroupStatus,
    is_writable: bool,
    behind: &dyn Fn(MemberId) -> Option<u64>,
) -> Group {
    let member = |member: &MemberStatus| {
        let is_leader = status.leader == Some(member.id);
        let role = match (member.is_witness, is_leader) {
            (true, _) => GroupMemberRole::Witness,
            (false, true) => GroupMemberRole::Primary,
            (false, false) => GroupMemberRole::Secondary,
        };
        let description = member.description.clone().unwrap_or_default();
        let uuid = Some(description.uuid).filter(|uuid| *uuid != Default::default());
        GroupMember {
            uuid: uuid.map_or_else(String::new, |uuid| uuid.to_string()),
            host: member.host.clone(),
            port: member.port,
            state: state(status, member, is_writable),
            role,
            version: description.version,
            is_own: member.id == status.id,
            behind: behind(member.id),
        }
    };
    let (epoch, number) = status.view;
    Group {
        view: format!("{epoch}:{number}"),
        members: status.members.iter().map(member).collect(),
    }
}

fn state(status: &GroupStatus, member: &MemberStatus, is_writable: bool) -> GroupMemberState {
    let is_own = member.id == status.id;
    let takes_part = match member.role {
        None => return GroupMemberState::Unreachable,
        Some(MemberRole::Witness) => true,
        // Known of this member only: it has no leader.
        Some(MemberRole::Candidate) => false,
        Some(MemberRole::Leader) => !is_own || is_writable,
        Some(MemberRole::Follower) => member.is_in_sync,
    };
    if takes_part {
        GroupMemberState::Online
    } else {
        GroupMemberState::Recovering
    }
}

/// Variables of SHOW STATUS.
fn variables(status: &GroupStatus) -> Vec<(String, String)> {
    let numbers = |want: &dyn Fn(&MemberStatus) -> bool| {
        let members = status.members.iter().filter(|member| want(member));
        let numbers: Vec<String> = members.map(|member| member.id.to_string()).collect();
        numbers.join(",")
    };
    let contact = |member: &MemberStatus| {
        let millis = member.last_contact.map(|time| time.as_millis().to_string());
        format!(
            "{}={}",
            member.id,
            millis.unwrap_or_else(|| "never".to_owned())
        )
    };
    let contacts: Vec<String> = status.members.iter().map(contact).collect();
    [
        ("role", status.role.name().to_owned()),
        ("epoch", status.epoch.to_string()),
        (
            "leader",
            status.leader.map_or(String::new(), |id| id.to_string()),
        ),
        (
            "has_majority",
            if status.has_majority { "ON" } else { "OFF" }.to_owned(),
        ),
        ("members_in_sync", numbers(&|member| member.is_in_sync)),
        ("members_heard", numbers(&|member| member.role.is_some())),
        ("last_contact_milliseconds", contacts.join(",")),
        ("leader_changes", status.changes.to_string()),
    ]
    .map(|(name, value)| (format!("Failover_{name}"), value))
    .into()
}

/// Metrics of a member.
pub fn stats(status: &GroupStatus) -> Vec<Stat> {
    let stat = |name, help, counter, value| Stat {
        name,
        help,
        counter,
        value,
    };
    let count = |want: &dyn Fn(&MemberStatus) -> bool| {
        status.members.iter().filter(|member| want(member)).count() as u64
    };
    let leader = status
        .members
        .iter()
        .find(|member| Some(member.id) == status.leader);
    let silence = leader.and_then(|leader| leader.last_contact);
    vec![
        stat(
            "failover_is_leader",
            "Whether this server leads its group.",
            false,
            u64::from(status.role == MemberRole::Leader),
        ),
        stat(
            "failover_has_leader",
            "Whether this server knows the leader of its group.",
            false,
            u64::from(status.leader.is_some()),
        ),
        stat(
            "failover_epoch",
            "The epoch of the group.",
            false,
            status.epoch,
        ),
        stat(
            "failover_leader_changes_total",
            "Leaders of which this server has learned since its start.",
            true,
            status.changes,
        ),
        stat(
            "failover_members_heard",
            "Members heard within --failover-timeout, this one included.",
            false,
            count(&|member| member.role.is_some()),
        ),
        stat(
            "failover_members_in_sync",
            "Servers that have every acknowledged commit.",
            false,
            count(&|member| member.is_in_sync),
        ),
        stat(
            "failover_leader_silence_milliseconds",
            "Time since the last message of the leader.",
            false,
            silence.map_or(0, |time| {
                u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
            }),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn status(own: MemberRole, leader: Option<u32>) -> GroupStatus {
        let member = |id: u32, role, is_in_sync| MemberStatus {
            id,
            host: format!("db{id}"),
            port: 3306,
            is_witness: role == Some(MemberRole::Witness),
            role,
            is_in_sync,
            last_contact: Some(Duration::ZERO),
            description: None,
        };
        let role = |id| match id {
            _ if leader == Some(id) => MemberRole::Leader,
            _ => MemberRole::Follower,
        };
        GroupStatus {
            id: 1,
            role: own,
            epoch: 2,
            view: (2, 3),
            leader,
            has_majority: true,
            changes: 1,
            members: vec![
                member(1, Some(own), true),
                member(2, Some(role(2)), true),
                member(3, Some(role(3)), false),
                member(4, Some(MemberRole::Witness), false),
                member(5, None, false),
            ],
        }
    }

    fn states(status: &GroupStatus, is_writable: bool) -> Vec<(GroupMemberRole, GroupMemberState)> {
        let members = group(status, is_writable, &|_| None).members.into_iter();
        members.map(|member| (member.role, member.state)).collect()
    }

    #[test]
    fn exactly_the_leader_that_takes_writes_is_an_online_primary() {
        use GroupMemberRole::{Primary, Secondary, Witness};
        use GroupMemberState::{Online, Recovering, Unreachable};
        let others = [
            (Secondary, Online),
            (Secondary, Recovering),
            (Witness, Online),
            (Secondary, Unreachable),
        ];
        let leads = status(MemberRole::Leader, Some(1));
        let expected = [&[(Primary, Online)], &others[..]].concat();
        assert_eq!(states(&leads, true), expected);
        assert_eq!(states(&leads, false)[0], (Primary, Recovering));
        let follows = status(MemberRole::Follower, Some(2));
        assert_eq!(
            states(&follows, false)[..2],
            [(Secondary, Online), (Primary, Online)]
        );
        let waits = status(MemberRole::Candidate, None);
        assert_eq!(states(&waits, false)[0], (Secondary, Recovering));
    }
}
