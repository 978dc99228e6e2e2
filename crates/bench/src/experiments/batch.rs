//! A workload of one statement whose parameters a function generates, for the
//! experiments on inserts.

use crate::error::{Error, Result};
use crate::load::{Worker, Workload};
use crate::proto::{Answer, Call, Verb};
use crate::value;

/// Adds random parameters to a request.
pub type Fill<'a> = dyn Fn(&mut fastrand::Rng, &mut Call) + Sync + 'a;

/// Whether an answer is as expected.
pub type Check<'a> = dyn Fn(&Answer) -> bool + Sync + 'a;

/// A statement that each connection repeats.
pub struct Statement<'a> {
    /// The statement.
    pub text: String,
    /// Generator of its parameters.
    pub fill: Box<Fill<'a>>,
    /// Check of each answer.
    pub check: Box<Check<'a>>,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Maximum number of requests per connection; `None`: no limit.
    pub limit: Option<u64>,
}

impl Workload for Statement<'_> {
    fn statements(&self) -> Vec<String> {
        vec![self.text.clone()]
    }

    fn worker(&self, connection: usize) -> Box<dyn Worker + '_> {
        Box::new(Repeat {
            of: self,
            random: fastrand::Rng::with_seed(value::mix(self.seed ^ value::mix(connection as u64))),
            left: self.limit,
        })
    }
}

struct Repeat<'a> {
    of: &'a Statement<'a>,
    random: fastrand::Rng,
    left: Option<u64>,
}

impl Worker for Repeat<'_> {
    fn next(&mut self, call: &mut Call) -> bool {
        if let Some(left) = &mut self.left {
            if *left == 0 {
                return false;
            }
            *left -= 1;
        }
        call.begin(Verb::Statement(0));
        (self.of.fill)(&mut self.random, call);
        true
    }

    fn verify(&mut self, answer: &Answer) -> Result<()> {
        if (self.of.check)(answer) {
            return Ok(());
        }
        let first = answer.cell(0).map(|v| {
            let shown = v.get(..60).unwrap_or(v);
            String::from_utf8_lossy(shown).into_owned()
        });
        Err(Error::wrong(format!(
            "{}: {} rows, {} changed, first value {first:?}",
            self.of.text.get(..40).unwrap_or(&self.of.text),
            answer.rows,
            answer.affected
        )))
    }
}

/// A check that a request inserted `rows` rows.
pub fn inserted(rows: u64) -> Box<Check<'static>> {
    Box::new(move |answer| answer.affected == rows)
}
