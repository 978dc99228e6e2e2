//! The character set of a login request.

use crate::common::{good, root, server};
use porpoise_base::cancel::Cancel;
use porpoise_kv::model::Model;
use std::sync::Arc;

#[test]
fn the_collation_of_a_login_sets_the_character_sets() {
    let server = server(Arc::new(Model::new()));
    let variables = "SELECT CONCAT_WS(' ', @@character_set_client, @@character_set_results, \
                     @@collation_connection)";
    for (collation, expected) in [
        (63, "binary binary binary"),
        (8, "latin1 latin1 latin1_swedish_ci"),
        (255, "utf8mb4 utf8mb4 utf8mb4_0900_ai_ci"),
    ] {
        let mut info = root(u64::from(collation));
        info.collation = collation;
        let mut session = server.connect(info, Cancel::new()).unwrap();
        assert_eq!(good(&mut session, variables), [expected]);
        good(&mut session, "SET NAMES utf8mb3");
        session.reset().unwrap();
        assert_eq!(good(&mut session, variables), [expected]);
    }
}
