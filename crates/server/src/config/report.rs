//! `porpoise config`: the effective settings with their sources, and the reference of all settings
//! and system variables, from which docs/guide/configuration.md is generated.

use super::Config;
use super::table::{SETTINGS, Setting};
use porpoise_sql::vars::{Scope, VARIABLES, Variable};
use std::fmt::Write;

/// Settings that SIGHUP applies without a restart.
pub const RELOADABLE: &[&str] = &[
    "tls-cert",
    "tls-key",
    "ssl-ca",
    "log",
    "max-connections",
    "max-before-login",
    "statement-memory",
];

/// The last line of [`show`].
const PERSISTED_HINT: &str = "# System variables that SET PERSIST has set are in the store: porpoise sql \
    -e 'SELECT * FROM performance_schema.persisted_variables'\n";

/// The effective settings: name, value and source, a line each. Values of SET PERSIST are rows of the
/// store, which only its server reads; the last line says how to see them.
pub fn show(config: &Config) -> String {
    let mut text = String::new();
    let width = SETTINGS.iter().map(|s| s.name.len()).max().unwrap_or(0);
    for value in &config.effective {
        let source = match &value.source {
            Some(source) => source.to_string(),
            None => "default".to_owned(),
        };
        let shown = if value.text.is_empty() {
            "-"
        } else {
            &value.text
        };
        // Writing into a String does not fail.
        let _ = writeln!(text, "{:<width$}  {shown:<24}  {source}", value.name);
    }
    text.push_str(PERSISTED_HINT);
    text
}

/// The reference in Markdown.
pub fn reference() -> String {
    let mut text = String::from(
        "# Configuration: reference\n\n\
         This page is generated (`porpoise config reference`); a test compares it with the program.\n\n\
         Settings are options of `porpoise serve` (`--max-connections 500`), keys of the file that `--config` names \
         (`max_connections = 500`), and environment variables (`PORPOISE_MAX_CONNECTIONS=500`). The command line beats the \
         variable, the variable beats the file. `porpoise config show` prints the effective values with their sources, \
         `porpoise config check` verifies them without starting a server; both take the options of `porpoise serve`.\n\n\
         After SIGHUP (`systemctl reload porpoise`) the server reads file, variables and certificates again, and logs each change. \
         Settings marked *reload* are in force at once; others need a restart, which a line of the log says. If something is not \
         valid, nothing changes.\n\n\
         ## Settings\n\n\
         | setting | default | meaning |\n|---|---|---|\n",
    );
    for setting in SETTINGS {
        let _ = writeln!(text, "{}", setting_row(setting));
    }
    text.push_str(
        "\n## System variables\n\n\
         Read by `SHOW VARIABLES`, changed by `SET`, kept over restarts by `SET PERSIST`. \
         `performance_schema.variables_info` says where the value of each comes from.\n\n\
         | variable | scope | default | meaning |\n|---|---|---|---|\n",
    );
    for variable in VARIABLES {
        let _ = writeln!(text, "{}", variable_row(variable));
    }
    text
}

/// Escapes text for a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// A value between backticks, if there is one.
fn code(text: &str) -> String {
    match text {
        "" => String::new(),
        text => format!("`{}`", cell(text)),
    }
}

fn setting_row(setting: &Setting) -> String {
    let value = match setting.value {
        "" => String::new(),
        value => format!(" {}", cell(value)),
    };
    let reload = if RELOADABLE.contains(&setting.name) {
        " *reload*"
    } else {
        ""
    };
    format!(
        "| `--{}{value}` | {} | {}{reload} |",
        setting.name,
        code(setting.default),
        cell(setting.help)
    )
}

fn variable_row(variable: &Variable) -> String {
    let scope = match variable.scope {
        Scope::Both => "global, session",
        Scope::Global => "global",
        Scope::Session => "session",
        Scope::Fixed => "global, read-only",
        Scope::SessionFixed => "session, read-only",
    };
    format!(
        "| `{}` | {scope} | {} | {} |",
        variable.name,
        code(variable.default),
        cell(variable.doc)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_of_the_guide_is_up_to_date() {
        let page = include_str!("../../../../docs/guide/configuration.md");
        assert!(
            page == reference(),
            "run `porpoise config reference > docs/guide/configuration.md`"
        );
    }

    #[test]
    fn reloadable_settings_exist() {
        for name in RELOADABLE {
            assert!(SETTINGS.iter().any(|s| s.name == *name), "{name}");
        }
    }
}
