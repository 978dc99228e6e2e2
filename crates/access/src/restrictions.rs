//! Restrictions: privileges of `*.*` that an account does not have on some databases
//! (manual, "Privilege Restriction Using Partial Revokes").
//!
//! ```text
//!   GRANT SELECT, INSERT ON *.* TO u        global {SELECT, INSERT}
//!   REVOKE INSERT ON world.* FROM u         global as before, world: {INSERT} restricted
//!   GRANT INSERT ON world.* TO u            no restriction, and no grant on `world`
//! ```
//!
//! Invariants:
//! 1. A restriction names one database; there are no patterns.
//! 2. No account has a privilege both granted and restricted on one database: a grant on the
//!    database removes the restriction, and a granted privilege is revoked, not restricted.
//! 3. A grantor's restrictions are passed on with the global privileges that it grants,
//!    except where the grantee had the privilege without them.

use crate::privileges::Privileges;
use porpoise_types::json::{Json, Object};

/// Restricted privileges by database, in the order of names; none is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restrictions(Vec<(String, Privileges)>);

impl Restrictions {
    /// The privileges that can be restricted.
    pub const RESTRICTABLE: Privileges = Privileges::DATABASE.with(Privileges::GRANT_OPTION);

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Databases with their restricted privileges.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Privileges)> {
        self.0.iter().map(|(name, set)| (name.as_str(), *set))
    }

    /// The privileges restricted on a database.
    pub fn on(&self, database: &str) -> Privileges {
        let found = self.0.iter().find(|(name, _)| name == database);
        found.map_or(Privileges::NONE, |(_, set)| *set)
    }

    /// The privileges restricted on any database.
    pub fn anywhere(&self) -> Privileges {
        self.iter()
            .fold(Privileges::NONE, |all, (_, p)| all.with(p))
    }

    /// Replaces the restriction of a database.
    pub fn set(&mut self, database: &str, privileges: Privileges) {
        let privileges = privileges.intersection(Restrictions::RESTRICTABLE);
        self.0.retain(|(name, _)| name != database);
        if privileges != Privileges::NONE {
            let at = self.0.partition_point(|(name, _)| name.as_str() < database);
            self.0.insert(at, (database.to_owned(), privileges));
        }
    }

    /// Restricts more privileges on a database.
    pub fn add(&mut self, database: &str, privileges: Privileges) {
        self.set(database, self.on(database).with(privileges));
    }

    /// Lifts the restriction of privileges on every database, because the account no longer
    /// has them on `*.*`, or is granted them there again.
    pub fn lift(&mut self, privileges: Privileges) {
        let databases: Vec<String> = self.0.iter().map(|(name, _)| name.clone()).collect();
        for database in databases {
            self.set(&database, self.on(&database).without(privileges));
        }
    }

    /// The restrictions of an account after a grantor with restrictions has granted it the
    /// privileges `granted` on `*.*`. `held_globally` are the privileges that the account had on
    /// `*.*` before, `on_database` those granted to it on a database.
    #[must_use]
    pub fn after_grant(
        &self,
        granted: Privileges,
        held_globally: Privileges,
        grantor: &Restrictions,
        on_database: impl Fn(&str) -> Privileges,
    ) -> Restrictions {
        let mut after = self.clone();
        after.lift(granted);
        for (database, restricted) in grantor.iter() {
            // The account keeps a privilege that it had without a restriction.
            let unlimited = held_globally.without(self.on(database));
            let passed_on = granted.intersection(restricted).without(unlimited);
            after.add(database, passed_on.without(on_database(database)));
        }
        after
    }

    /// Returns a database that forbids this grantor to revoke privileges on `*.*` from an
    /// account: the grantor is restricted in one of them there, and the account is not.
    pub fn unrevocable_database<'r>(
        &'r self,
        revoked: Privileges,
        account: &Restrictions,
    ) -> Option<&'r str> {
        let mut databases = self.iter();
        let found = databases.find(|(database, restricted)| {
            let missing = revoked.intersection(*restricted);
            missing.without(account.on(database)) != Privileges::NONE
        });
        found.map(|(database, _)| database)
    }

    /// The value of `Restrictions` in `User_attributes`.
    pub(crate) fn to_json(&self) -> Json {
        let one = |(database, privileges): (&str, Privileges)| {
            let names = privileges.names().map(|name| Json::String(name.to_owned()));
            Json::Object(Object::from_members(vec![
                ("Database".to_owned(), Json::String(database.to_owned())),
                ("Privileges".to_owned(), Json::Array(names.collect())),
            ]))
        };
        Json::Array(self.iter().map(one).collect())
    }

    /// Reads the value of `Restrictions` in `User_attributes`; unknown names are left out.
    pub(crate) fn from_json(list: &[Json]) -> Restrictions {
        let mut all = Restrictions::default();
        for one in list {
            let Json::Object(one) = one else { continue };
            let (Some(Json::String(database)), Some(Json::Array(names))) =
                (one.get("Database"), one.get("Privileges"))
            else {
                continue;
            };
            let known = names.iter().filter_map(|name| match name {
                Json::String(name) => Privileges::named(name),
                _ => None,
            });
            all.add(database, known.fold(Privileges::NONE, Privileges::with));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SELECT: Privileges = Privileges::SELECT;
    const INSERT: Privileges = Privileges::INSERT;
    const BOTH: Privileges = SELECT.with(INSERT);

    fn of(list: &[(&str, Privileges)]) -> Restrictions {
        let mut all = Restrictions::default();
        for (database, privileges) in list {
            all.add(database, *privileges);
        }
        all
    }

    #[test]
    fn only_privileges_on_databases_are_restricted() {
        let all = of(&[
            ("b", INSERT),
            ("a", BOTH.with(Privileges::FILE)),
            ("b", SELECT),
        ]);
        let list: Vec<_> = all.iter().collect();
        assert_eq!(list, [("a", BOTH), ("b", BOTH)]);
        assert_eq!(all.on("B"), Privileges::NONE);
        let mut less = all.clone();
        less.set("a", Privileges::NONE);
        less.lift(SELECT);
        assert_eq!(less, of(&[("b", INSERT)]));
        assert_eq!(less.anywhere(), INSERT);
        less.lift(BOTH);
        assert!(less.is_empty());
    }

    #[test]
    fn grantors_pass_their_restrictions_on() {
        let none = Privileges::NONE;
        let free = Restrictions::default();
        let grantor = of(&[("d", INSERT)]);
        let nowhere = |_: &str| none;
        // A new privilege comes with the grantor's restriction.
        let after = free.after_grant(BOTH, none, &grantor, nowhere);
        assert_eq!(after, grantor);
        // One that was held without a restriction stays so.
        assert!(free.after_grant(BOTH, INSERT, &grantor, nowhere).is_empty());
        // So does one that is granted on the database.
        let on_d = |name: &str| if name == "d" { INSERT } else { none };
        assert!(free.after_grant(BOTH, none, &grantor, on_d).is_empty());
        // The account's own restrictions are kept on databases where the grantor has them, too, and are
        // lifted on others.
        let own = of(&[("d", BOTH), ("e", INSERT), ("f", SELECT)]);
        let after = own.after_grant(INSERT, BOTH, &grantor, nowhere);
        assert_eq!(after, of(&[("d", BOTH), ("f", SELECT)]));
        let after = own.after_grant(BOTH, BOTH, &free, nowhere);
        assert!(after.is_empty());
    }

    #[test]
    fn a_restricted_grantor_revokes_no_more_than_it_holds() {
        let grantor = of(&[("d", INSERT)]);
        let free = Restrictions::default();
        assert_eq!(grantor.unrevocable_database(BOTH, &free), Some("d"));
        assert_eq!(grantor.unrevocable_database(SELECT, &free), None);
        assert_eq!(grantor.unrevocable_database(BOTH, &grantor), None);
        assert_eq!(free.unrevocable_database(BOTH, &grantor), None);
    }
}
