//! `porpoise cluster`: from a list of hosts to a TiKV cluster with Porpoise servers on it.
//!
//! ```text
//! init       an example of the description, with comments
//! generate   cluster.toml --parse, verify--> Topology --> for each host: settings, systemd units, firewall rules;
//!                                                     for the operator: ports and start order
//! demo       a small cluster on this machine, in which a server is killed
//! ```
//!
//! * `topology`: the description, and its verification.
//! * `files`: the generated files.
//! * `output`: writing them, also over those of an earlier run.
//! * `demo`: the demonstration.

mod demo;
mod files;
mod output;
mod topology;

pub use demo::DemoOptions;
pub use output::{GenerateOptions, InitOptions};

use crate::config::StartError;
use clap::Subcommand;

/// Commands of `porpoise cluster`.
#[derive(Subcommand, Clone, Debug)]
pub enum ClusterCommand {
    /// Writes an example of a description of a cluster, to be edited
    Init(InitOptions),
    /// Writes the settings, systemd units, firewall rules and start order of a described cluster
    Generate(GenerateOptions),
    /// Runs a cluster on this machine, kills one of its servers, and shows that nothing is lost
    Demo(DemoOptions),
}

/// Runs a command.
///
/// # Errors
/// One line.
pub fn run(command: &ClusterCommand) -> Result<(), StartError> {
    match command {
        ClusterCommand::Init(options) => output::init(options),
        ClusterCommand::Generate(options) => output::generate(options),
        ClusterCommand::Demo(options) => demo::run(options),
    }
}
