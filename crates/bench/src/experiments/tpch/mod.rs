//! `bench tpch`: the 22 queries of the TPC-H benchmark over generated data.
//!
//! Schema, queries and their parameters are those of the TPC-H specification
//! (revision 3, validation parameters); the data follow its distributions
//! where a query depends on them, but are not dbgen's. The results are not TPC
//! results: no refresh functions, no power or throughput run, no audit.

mod generator;
mod questions;

use super::load_rows::LoadRows;
use super::query_suite::{self, Suite};
use super::{Bench, Route};
use crate::connect::Admin;
use crate::error::Result;
use crate::url::{System, Target};
use generator::{Scale, TABLES};

/// Rows of `lineitem` unless chosen otherwise: scale factor 0.1.
const ROWS: u64 = 600_000;

fn prepare(target: &Target, route: &Route, rows: u64) -> Result<()> {
    let mut admin = Admin::connect(target)?;
    let scale = Scale::of_lines(rows);
    let engine = match target.system {
        System::Mysql => " engine=InnoDB",
        _ => "",
    };
    for table in TABLES {
        admin.run(&format!("drop table if exists {}", table.name))?;
        admin.run(&format!(
            "create table {} ({}){engine}",
            table.name, table.columns
        ))?;
        let count = (table.rows)(&scale);
        LoadRows::new(0..count, table.filler(scale)).load(&route.endpoint)?;
    }
    for table in TABLES {
        admin.run(&format!("analyze table {}", table.name))?;
    }
    Ok(())
}

/// `bench tpch`.
///
/// # Errors
/// Two systems answer differently, or none could be prepared.
pub fn tpch(bench: &mut Bench) -> Result<()> {
    let rows = bench.rows(if bench.options.is_quick { 60_000 } else { ROWS });
    let scale = Scale::of_lines(rows);
    let suite = Suite {
        name: "tpch",
        title: "The 22 queries of TPC-H",
        tables: format!(
            "{rows} lines of {} orders of {} customers",
            scale.orders, scale.customers
        ),
        rows,
        prepare,
        questions: questions::QUESTIONS,
    };
    query_suite::run(bench, &suite)
}
