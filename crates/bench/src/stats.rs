//! Statistics of repeated runs: means, deviations, intervals, ratios in
//! pairs, and straight lines through points.
//!
//! 1. Runs of two systems are compared pair by pair: the runs of one round
//!    are close together in time, so a slow period of the machine affects
//!    both and cancels out of their ratio.
//! 2. The interval of a ratio is that of the mean of its logarithms (Student's t,
//!    because there are few runs), transformed back by the exponential.
//!    The geometric mean is reported with it, so that the ratios of A to B
//!    and of B to A agree.
//! 3. A single run has no interval.
//!
//! Rejected: a bootstrap over three to ten runs. It draws from so few values
//! that its intervals are too narrow.

use serde::{Deserialize, Serialize};

/// A figure with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The mean (for ratios the geometric one).
    pub mean: f64,
    /// Ends of the 95 % interval; none with fewer than two runs.
    pub interval: Option<(f64, f64)>,
}

impl Estimate {
    /// Whether the interval excludes `value`, so that the difference is more
    /// than chance.
    pub fn excludes(&self, value: f64) -> bool {
        self.interval
            .is_some_and(|(low, high)| value < low || value > high)
    }
}

/// Arithmetic mean; 0 of nothing.
pub fn mean(values: &[f64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    values.iter().sum::<f64>() / values.len() as f64
}

/// Standard deviation of a sample (n - 1 in the divisor); 0 below two values.
pub fn stdev(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let centre = mean(values);
    let squares: f64 = values.iter().map(|v| (v - centre).powi(2)).sum();
    (squares / (values.len() - 1) as f64).sqrt()
}

/// Whether there are enough values for a percentile that differs from their maximum.
pub fn has_percentile(values: u64, share: f64) -> bool {
    values as f64 * (1.0 - share) >= 0.999_999
}

/// Median; 0 of nothing.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match (sorted.get(middle.wrapping_sub(1)), sorted.get(middle)) {
        (Some(a), Some(b)) if sorted.len().is_multiple_of(2) => (a + b) / 2.0,
        (_, Some(b)) => *b,
        _ => 0.0,
    }
}

/// Mean with its 95 % interval by Student's t.
pub fn estimate(values: &[f64]) -> Estimate {
    let centre = mean(values);
    let interval = (values.len() >= 2).then(|| {
        let half = student_t95(values.len() - 1) * stdev(values) / (values.len() as f64).sqrt();
        (centre - half, centre + half)
    });
    Estimate {
        mean: centre,
        interval,
    }
}

/// Ratio of `ours` to `theirs`, the n-th run of one with the n-th of the
/// other; runs beyond the shorter list, and pairs with a figure that is not
/// positive, are left out. `None` without any pair.
pub fn paired_ratio(ours: &[f64], theirs: &[f64]) -> Option<Estimate> {
    let logs: Vec<f64> = ours
        .iter()
        .zip(theirs)
        .filter(|(a, b)| **a > 0.0 && **b > 0.0)
        .map(|(a, b)| (a / b).ln())
        .collect();
    if logs.is_empty() {
        return None;
    }
    let of_logs = estimate(&logs);
    Some(Estimate {
        mean: of_logs.mean.exp(),
        interval: of_logs.interval.map(|(a, b)| (a.exp(), b.exp())),
    })
}

/// A straight line `y = intercept + slope * x`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Growth of y for each unit of x.
    pub slope: f64,
    /// y at x = 0.
    pub intercept: f64,
}

/// The line of least squares through points; `None` unless two x differ.
pub fn fit_line(points: &[(f64, f64)]) -> Option<Line> {
    let n = points.len() as f64;
    let mean_x = points.iter().map(|p| p.0).sum::<f64>() / n;
    let mean_y = points.iter().map(|p| p.1).sum::<f64>() / n;
    let spread: f64 = points.iter().map(|p| (p.0 - mean_x).powi(2)).sum();
    if points.len() < 2 || spread == 0.0 {
        return None;
    }
    let together: f64 = points.iter().map(|p| (p.0 - mean_x) * (p.1 - mean_y)).sum();
    let slope = together / spread;
    Some(Line {
        slope,
        intercept: mean_y - slope * mean_x,
    })
}

/// Two-sided 95 % quantile of Student's t with a number of degrees of freedom,
/// from the usual table; between its entries the next smaller one holds.
fn student_t95(freedom: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    match TABLE.get(freedom.wrapping_sub(1)) {
        Some(t) => *t,
        None if freedom <= 40 => 2.042,
        None if freedom <= 60 => 2.021,
        None if freedom <= 120 => 2.000,
        None => 1.980,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-3 * b.abs().max(1.0)
    }

    #[test]
    fn the_interval_of_a_mean_is_students() {
        // 2, 4, 6: mean 4, stdev 2, t(2) = 4.303, half width 4.303 * 2 / sqrt(3).
        let found = estimate(&[2.0, 4.0, 6.0]);
        let (low, high) = found.interval.unwrap();
        assert!(near(found.mean, 4.0));
        assert!(near(high - 4.0, 4.9686) && near(4.0 - low, 4.9686));
        assert!(!found.excludes(0.0));
        assert!(found.excludes(-1.0));
    }

    #[test]
    fn one_run_has_no_interval() {
        let found = estimate(&[3.0]);
        assert_eq!((found.mean, found.interval), (3.0, None));
        assert!(!found.excludes(100.0));
        assert_eq!(estimate(&[]).mean, 0.0);
    }

    #[test]
    fn ratios_in_pairs_cancel_a_slow_spell() {
        // Both halve in the second round: the ratio is exactly 2 with no width.
        let found = paired_ratio(&[200.0, 100.0, 200.0], &[100.0, 50.0, 100.0]).unwrap();
        let (low, high) = found.interval.unwrap();
        assert!(near(found.mean, 2.0) && near(low, 2.0) && near(high, 2.0));
    }

    #[test]
    fn a_ratio_and_its_inverse_agree() {
        let (a, b) = ([110.0, 130.0, 90.0], [100.0, 100.0, 100.0]);
        let there = paired_ratio(&a, &b).unwrap();
        let back = paired_ratio(&b, &a).unwrap();
        assert!(near(there.mean * back.mean, 1.0));
        let ((low, _), (_, high)) = (there.interval.unwrap(), back.interval.unwrap());
        assert!(near(low * high, 1.0));
    }

    #[test]
    fn pairs_without_a_figure_are_left_out() {
        assert_eq!(paired_ratio(&[0.0], &[5.0]), None);
        let found = paired_ratio(&[0.0, 6.0, 9.0], &[5.0, 3.0]).unwrap();
        assert!(near(found.mean, 2.0));
        assert_eq!(found.interval, None);
    }

    #[test]
    fn confidence_intervals_have_their_nominal_coverage() {
        // 2,000 samples of five near-normal values of mean 10: about 95 % cover it.
        let mut random = fastrand::Rng::with_seed(7);
        let mut normal = || (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
        let covered = (0..2000)
            .filter(|_| {
                let sample: Vec<f64> = (0..5).map(|_| 10.0 + normal()).collect();
                !estimate(&sample).excludes(10.0)
            })
            .count();
        assert!((1860..=1940).contains(&covered), "{covered}");
    }

    #[test]
    fn a_line_goes_through_its_points() {
        let points: Vec<(f64, f64)> = (1..=50)
            .map(|x| (f64::from(x), 30.0 + 1.5 * f64::from(x)))
            .collect();
        let line = fit_line(&points).unwrap();
        assert!(near(line.slope, 1.5) && near(line.intercept, 30.0));
        assert_eq!(fit_line(&[(1.0, 2.0)]), None);
        assert_eq!(fit_line(&[(1.0, 2.0), (1.0, 3.0)]), None);
    }

    #[test]
    fn a_percentile_needs_values_beyond_it() {
        assert!(has_percentile(1000, 0.999) && !has_percentile(999, 0.999));
        assert!(has_percentile(10_000, 0.9999) && !has_percentile(9000, 0.9999));
    }

    #[test]
    fn medians_of_even_and_odd_counts() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&[]), 0.0);
        assert!(near(
            stdev(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]),
            2.138
        ));
    }
}
