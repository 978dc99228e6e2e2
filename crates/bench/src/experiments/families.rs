//! Variants of an operation, such as values of a setting, measured side by side.

use super::batch::Statement;
use super::{Bench, Route};
use crate::connect::Admin;
use crate::error::Result;
use crate::matrix::{self, Entry, Group};
use crate::report::Experiment;

/// One variant of an experiment at one system.
pub struct Variant<'a> {
    /// Name in reports.
    pub system: String,
    /// Target.
    pub route: &'a Route,
    /// Statement that is run before each run.
    pub setting: Option<String>,
    /// The work.
    pub workload: Box<dyn Fn() -> Statement<'a> + 'a>,
}

/// One operation at one size, by all variants.
pub struct Family<'v> {
    /// Operation.
    pub operation: &'static str,
    /// Size.
    pub size: u64,
    /// Connections.
    pub connections: usize,
    /// Units of work in a request.
    pub units: u64,
    /// The variants.
    pub variants: Vec<Variant<'v>>,
}

/// Runs all families; their cells go into `experiment`.
///
/// # Errors
/// A wrong answer.
pub fn run_families<'g, 'v: 'g>(
    bench: &mut Bench,
    experiment: &mut Experiment,
    families: &'g [Family<'v>],
) -> Result<()> {
    let groups: Vec<Group<'g>> = families
        .iter()
        .map(|family| Group {
            operation: family.operation.to_owned(),
            size: family.size,
            connections: family.connections,
            shape: bench.options.shape,
            units: family.units,
            entries: family.variants.iter().map(entry).collect(),
        })
        .collect();
    matrix::run(
        &groups,
        bench.options.effort,
        &mut bench.progress,
        &mut experiment.cells,
    )
}

fn entry<'g, 'v: 'g>(variant: &'g Variant<'v>) -> Entry<'g> {
    Entry {
        system: &variant.system,
        endpoint: &variant.route.endpoint,
        workload: Box::new((variant.workload)()),
        before: variant.setting.as_ref().map(|setting| {
            let set = move || {
                let mut admin = Admin::connect(&variant.route.endpoint.target)?;
                admin.run(setting).map(|_| ())
            };
            Box::new(set) as Box<dyn Fn() -> Result<()> + 'g>
        }),
    }
}
