//! Charts as SVG: lines with error bars over a numeric axis.
//!
//! Colours are those of Okabe and Ito, which people with any colour vision can
//! distinguish; each system also has its own point shape and line dash. Colours of text and grid come from the page's style, so that one
//! chart serves light and dark.

use crate::number::short;
use std::fmt::Write;

/// A point with the ends of its error bar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Position on the horizontal axis.
    pub x: f64,
    /// Height.
    pub y: f64,
    /// Error bar.
    pub interval: Option<(f64, f64)>,
    /// Whether the figure is in doubt: the point is drawn hollow.
    pub is_doubtful: bool,
}

/// A line of the chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Position among the systems of the page, for colour and shape.
    pub index: usize,
    /// Name, for the tooltip.
    pub name: String,
    /// Points in ascending order of x.
    pub points: Vec<Point>,
}

/// A chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Title above.
    pub title: String,
    /// Horizontal axis with unit.
    pub x_title: String,
    /// Vertical axis with unit.
    pub y_title: String,
    /// Whether x is logarithmic.
    pub is_logarithmic: bool,
    /// Whether x is a date, in seconds since 1970.
    pub is_dated: bool,
    /// Heights with a name, drawn as lines across the chart.
    pub limits: Vec<(&'static str, f64)>,
    /// Lines.
    pub series: Vec<Series>,
}

/// Okabe and Ito's colours; the yellow is darkened, to be seen on white, and
/// black is left out, not to be seen on black.
pub const COLOURS: [&str; 8] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#b8860b", "#7f7f7f", "#a0522d",
];

const DASHES: [&str; 4] = ["", "7 3", "2 3", "9 3 2 3"];

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 14.0;
/// From the axis to the first and the last size.
const MARGIN: f64 = 18.0;
/// Between the points of two systems at one size.
const APART: f64 = 3.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 46.0;

/// The colour of a system.
pub fn colour(index: usize) -> &'static str {
    COLOURS
        .get(index % COLOURS.len())
        .copied()
        .unwrap_or("#000")
}

fn dash(index: usize) -> &'static str {
    DASHES.get(index / 2 % DASHES.len()).copied().unwrap_or("")
}

/// Quotes text for SVG and HTML.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // No document of XML may hold these, quoted or not.
            c if c < ' ' && c != '\n' && c != '\t' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// Step of a scale from 0 to about `top` with four to eight steps: 1, 2 or 5
/// times a power of ten.
fn nice_step(top: f64) -> f64 {
    if !(top.is_finite() && top > 0.0) {
        return 1.0;
    }
    let raw = top / 5.0;
    let power = 10f64.powf(raw.log10().floor());
    let factor = match raw / power {
        f if f <= 1.0 => 1.0,
        f if f <= 2.0 => 2.0,
        f if f <= 5.0 => 5.0,
        _ => 10.0,
    };
    factor * power
}

struct Scale {
    low: f64,
    high: f64,
    is_logarithmic: bool,
    top: f64,
}

impl Scale {
    fn of(chart: &Chart) -> Scale {
        let points = || chart.series.iter().flat_map(|s| &s.points);
        let warp = |x: f64| {
            if chart.is_logarithmic {
                x.max(1e-9).log2()
            } else {
                x
            }
        };
        let low = points().map(|p| warp(p.x)).fold(f64::INFINITY, f64::min);
        let high = points()
            .map(|p| warp(p.x))
            .fold(f64::NEG_INFINITY, f64::max);
        let greatest = points()
            .map(|p| p.interval.map_or(p.y, |i| i.1.min(p.y * 1.5)).max(p.y))
            .chain(chart.limits.iter().map(|(_, height)| *height))
            .fold(0.0, f64::max);
        let step = nice_step(greatest);
        let (low, high) = if low.is_finite() && high > low {
            (low, high)
        } else {
            let middle = if low.is_finite() { low } else { 0.0 };
            (middle - 1.0, middle + 1.0)
        };
        Scale {
            low,
            high,
            is_logarithmic: chart.is_logarithmic,
            top: (greatest / step).ceil().max(1.0) * step,
        }
    }

    fn x(&self, x: f64) -> f64 {
        let x = if self.is_logarithmic {
            x.max(1e-9).log2()
        } else {
            x
        };
        LEFT + MARGIN
            + (x - self.low) / (self.high - self.low) * (WIDTH - LEFT - RIGHT - 2.0 * MARGIN)
    }

    fn y(&self, y: f64) -> f64 {
        let share = (y / self.top).clamp(0.0, 1.0);
        HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
    }
}

/// The chart as an element; bars if there is only one size.
pub fn render(chart: &Chart) -> String {
    if !chart.is_dated && super::bars::is_one_size(chart) {
        return super::bars::render(chart);
    }
    let mut out = String::new();
    let scale = Scale::of(chart);
    // Writing to a String cannot fail, here and below.
    let _ = write!(
        out,
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" xmlns=\"http://www.w3.org/2000/svg\">\
         <title>{}</title><text class=\"head\" x=\"{LEFT}\" y=\"16\">{}</text>",
        escape(&chart.title),
        escape(&chart.title)
    );
    axes(chart, &scale, &mut out);
    limits(chart, &scale, &mut out);
    // Side by side, so that error bars of one size do not hide each other.
    let middle = chart.series.len().saturating_sub(1) as f64 / 2.0;
    for (place, series) in chart.series.iter().enumerate() {
        let aside = (place as f64 - middle) * APART;
        draw(series, &scale, aside, chart.is_dated, &mut out);
    }
    out.push_str("</svg>");
    out
}

fn axes(chart: &Chart, scale: &Scale, out: &mut String) {
    let step = nice_step(scale.top);
    let mut mark = 0.0;
    while mark <= scale.top * 1.0001 {
        let y = scale.y(mark);
        let _ = write!(
            out,
            "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            y + 4.0,
            short(mark)
        );
        mark += step;
    }
    let mut sizes: Vec<f64> = chart
        .series
        .iter()
        .flat_map(|s| s.points.iter().map(|p| p.x))
        .collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    let mut last = f64::NEG_INFINITY;
    for size in sizes {
        let x = scale.x(size);
        let (apart, label) = if chart.is_dated {
            (62.0, crate::machine::day(size as u64))
        } else {
            (22.0, size.to_string())
        };
        if x - last < apart {
            continue;
        }
        last = x;
        let _ = write!(
            out,
            "<line class=\"grid\" x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{:.1}\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
            HEIGHT - BOTTOM,
            HEIGHT - BOTTOM + 15.0
        );
    }
    let _ = write!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
         <text transform=\"translate(13 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 12.0,
        escape(&chart.x_title),
        (TOP + HEIGHT - BOTTOM) / 2.0,
        escape(&chart.y_title)
    );
}

/// Lines at named heights.
fn limits(chart: &Chart, scale: &Scale, out: &mut String) {
    for (name, height) in &chart.limits {
        let y = scale.y(*height);
        let _ = write!(
            out,
            "<line class=\"limit\" stroke-dasharray=\"5 4\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{:.1}\" \
             y2=\"{y:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{} {}</text>",
            WIDTH - RIGHT,
            WIDTH - RIGHT - 2.0,
            y - 3.0,
            escape(name),
            short(*height)
        );
    }
}

fn draw(series: &Series, scale: &Scale, aside: f64, is_dated: bool, out: &mut String) {
    let label = |x: f64| match is_dated {
        true => crate::machine::day(x as u64),
        false => x.to_string(),
    };
    let colour = colour(series.index);
    let _ = write!(out, "<g stroke=\"{colour}\" fill=\"none\">");
    let path: Vec<String> = series
        .points
        .iter()
        .map(|p| format!("{:.1},{:.1}", scale.x(p.x) + aside, scale.y(p.y)))
        .collect();
    let _ = write!(
        out,
        "<polyline stroke-width=\"2\" stroke-dasharray=\"{}\" points=\"{}\"/>",
        dash(series.index),
        path.join(" ")
    );
    for point in &series.points {
        let (x, y) = (scale.x(point.x) + aside, scale.y(point.y));
        if let Some((low, high)) = point.interval {
            let (low, high) = (scale.y(low), scale.y(high));
            let _ = write!(
                out,
                "<path d=\"M{x:.1} {low:.1}V{high:.1}M{:.1} {low:.1}h6M{:.1} {high:.1}h6\"/>",
                x - 3.0,
                x - 3.0
            );
        }
        let fill = if point.is_doubtful { "none" } else { colour };
        let _ = write!(
            out,
            "<path fill=\"{fill}\" d=\"{}\"><title>{} at {}: {}</title></path>",
            shape(series.index, x, y),
            escape(&series.name),
            label(point.x),
            short(point.y)
        );
    }
    out.push_str("</g>");
}

/// The outline of a system's points.
pub fn shape(index: usize, x: f64, y: f64) -> String {
    match index % 5 {
        0 => format!("M{:.1} {y:.1}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", x - 4.0),
        1 => format!("M{:.1} {:.1}h8v8h-8z", x - 4.0, y - 4.0),
        2 => format!("M{x:.1} {:.1}l5 8h-10z", y - 5.0),
        3 => format!("M{x:.1} {:.1}l5 5l-5 5l-5 -5z", y - 5.0),
        _ => format!("M{x:.1} {:.1}l5 -8h-10z", y + 5.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<Point>) -> Chart {
        Chart {
            title: "a < b".to_owned(),
            x_title: "clients".to_owned(),
            y_title: "requests/s".to_owned(),
            is_logarithmic: true,
            is_dated: false,
            limits: Vec::new(),
            series: vec![Series {
                index: 3,
                name: "A & B".to_owned(),
                points,
            }],
        }
    }

    fn point(x: f64, y: f64) -> Point {
        Point {
            x,
            y,
            interval: Some((y * 0.9, y * 1.1)),
            is_doubtful: false,
        }
    }

    #[test]
    fn steps_are_round_numbers() {
        for (top, step) in [
            (9.0, 2.0),
            (100.0, 20.0),
            (151_234.0, 50_000.0),
            (0.07, 0.02),
        ] {
            assert!((nice_step(top) - step).abs() < 1e-9, "{top}");
        }
        assert_eq!(nice_step(0.0), 1.0);
        assert_eq!(nice_step(f64::NAN), 1.0);
    }

    #[test]
    fn charts_stay_inside_their_area() {
        for points in [
            vec![],
            vec![point(1.0, 0.0)],
            vec![point(8.0, 5.0)],
            vec![point(1.0, 1.0), point(512.0, 1e9)],
        ] {
            let text = render(&chart(points));
            assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
            assert!(text.contains("a &lt; b") && text.ends_with("</svg>"));
        }
    }

    #[test]
    fn dates_and_limits_are_drawn() {
        let mut dated = chart(vec![point(1_777_899_779.0, 2.0)]);
        dated.is_dated = true;
        dated.is_logarithmic = false;
        dated.limits = vec![("floor", 1.5), ("goal", 30.0)];
        let text = render(&dated);
        assert!(text.contains(">2026-05-04</text>"), "{text}");
        assert!(text.contains("floor 1.50") && text.contains("goal 30.0"));
        assert_eq!(text.matches("class=\"limit\"").count(), 2);
        // The goal is far above the point, and inside the chart.
        for place in text.split(" y1=\"").skip(1) {
            let place: f64 = place.split('"').next().unwrap().parse().unwrap();
            assert!(
                (TOP..=HEIGHT - BOTTOM).contains(&place),
                "{place} in {text}"
            );
        }
    }

    #[test]
    fn doubtful_points_are_hollow() {
        let mut doubtful = point(1.0, 5.0);
        doubtful.is_doubtful = true;
        let other = point(2.0, 5.0);
        assert!(render(&chart(vec![doubtful, other])).contains("<path fill=\"none\""));
        let sure = render(&chart(vec![point(1.0, 5.0), other]));
        assert!(!sure.contains("<path fill=\"none\""));
    }
}
