//! Charts of a single size: a bar for each system between its name and its
//! figure, because line charts need several sizes.

use super::svg::{Chart, colour, escape};
use crate::number::short;
use std::fmt::Write;

const WIDTH: f64 = 460.0;
const NAMES: f64 = 176.0;
const FIGURES: f64 = 52.0;
const TOP: f64 = 30.0;
const STEP: f64 = 20.0;
const BOTTOM: f64 = 26.0;
/// Longest name shown whole, in characters.
const LONGEST: usize = 29;

/// Whether a chart's points all have the same size.
pub fn is_one_size(chart: &Chart) -> bool {
    let mut sizes = chart
        .series
        .iter()
        .flat_map(|s| s.points.iter())
        .map(|p| p.x);
    let first = sizes.next();
    first.is_some_and(|first| sizes.all(|x| (x - first).abs() < f64::EPSILON))
}

/// The chart as an element.
pub fn render(chart: &Chart) -> String {
    let bars: Vec<_> = chart
        .series
        .iter()
        .filter_map(|s| Some((s, s.points.first()?)))
        .collect();
    let height = TOP + STEP * bars.len() as f64 + BOTTOM;
    // An interval that is far longer than its bar is cut off; the table has the figures.
    let end = |p: &super::svg::Point| p.interval.map_or(p.y, |i| i.1.clamp(p.y, p.y * 1.5));
    let greatest = bars.iter().map(|(_, p)| end(p)).fold(0.0, f64::max);
    let scale = if greatest > 0.0 {
        (WIDTH - NAMES - FIGURES) / greatest
    } else {
        0.0
    };
    let x = |value: f64| NAMES + value.clamp(0.0, greatest.max(0.0)) * scale;
    let mut out = String::new();
    // Writing to a String cannot fail, here and below.
    let _ = write!(
        out,
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" xmlns=\"http://www.w3.org/2000/svg\">\
         <title>{0}</title><text class=\"head\" x=\"4\" y=\"16\">{0}</text>",
        escape(&chart.title)
    );
    for (row, (series, point)) in bars.iter().enumerate() {
        let top = TOP + STEP * row as f64;
        let (middle, baseline) = (top + STEP / 2.0 - 2.0, top + STEP / 2.0 + 2.0);
        let colour = colour(series.index);
        let fill = if point.is_doubtful { "none" } else { colour };
        let _ = write!(
            out,
            "<text x=\"{:.1}\" y=\"{baseline:.1}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{NAMES}\" y=\"{:.1}\" width=\"{:.1}\" height=\"12\" fill=\"{fill}\" \
             stroke=\"{colour}\"><title>{}: {}</title></rect>",
            NAMES - 6.0,
            escape(&cut(&series.name)),
            top + 2.0,
            x(point.y) - NAMES,
            escape(&series.name),
            short(point.y)
        );
        let mut right = x(point.y);
        if let Some((low, _)) = point.interval {
            right = x(end(point));
            let _ = write!(
                out,
                "<path class=\"bar\" d=\"M{0:.1} {middle:.1}H{right:.1}M{0:.1} {1:.1}v6M{right:.1} \
                 {1:.1}v6\"/>",
                x(low),
                middle - 3.0
            );
        }
        let _ = write!(
            out,
            "<text x=\"{:.1}\" y=\"{baseline:.1}\">{}</text>",
            right + 6.0,
            short(point.y)
        );
    }
    caption(chart, height, &mut out);
    out.push_str("</svg>");
    out
}

/// Title of the bars, with unit and size.
fn caption(chart: &Chart, height: f64, out: &mut String) {
    let size = chart.series.iter().find_map(|s| s.points.first());
    let size = size.map_or(0.0, |p| p.x);
    let _ = write!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}; {}: {size}</text>",
        (NAMES + WIDTH - FIGURES) / 2.0,
        height - 8.0,
        escape(&chart.y_title),
        escape(&chart.x_title)
    );
}

/// A name, cut where it would not fit.
fn cut(name: &str) -> String {
    if name.chars().count() <= LONGEST {
        return name.to_owned();
    }
    let kept: String = name.chars().take(LONGEST - 1).collect();
    format!("{kept}\u{2026}")
}

#[cfg(test)]
mod tests {
    use super::super::svg::{Point, Series};
    use super::*;

    fn chart(points: &[(f64, f64)]) -> Chart {
        let series = points.iter().enumerate().map(|(index, (x, y))| Series {
            index,
            name: format!("<system> number {index} with a name of great length"),
            points: vec![Point {
                x: *x,
                y: *y,
                interval: Some((y * 0.1, y * 90.0)),
                is_doubtful: index == 1,
            }],
        });
        Chart {
            title: "a & b".to_owned(),
            x_title: "clients".to_owned(),
            y_title: "requests a second".to_owned(),
            is_logarithmic: true,
            is_dated: false,
            limits: Vec::new(),
            series: series.collect(),
        }
    }

    #[test]
    fn bars_are_for_one_size() {
        assert!(is_one_size(&chart(&[(8.0, 1.0), (8.0, 2.0)])));
        assert!(!is_one_size(&chart(&[(8.0, 1.0), (16.0, 2.0)])));
        assert!(!is_one_size(&chart(&[])));
    }

    #[test]
    fn charts_stay_inside_their_area() {
        let text = render(&chart(&[(8.0, 1.0), (8.0, 25_000.0), (8.0, 0.0)]));
        assert!(text.contains("a &amp; b") && text.ends_with("</svg>"));
        assert!(text.contains("25.0 k") && text.contains("clients: 8"));
        assert!(
            text.contains("&lt;system&gt; number 0 with a nam\u{2026}"),
            "{text}"
        );
        assert!(text.contains("fill=\"none\""), "the doubtful one is hollow");
        for place in text.split(" x=\"").skip(1) {
            let place: f64 = place.split('"').next().unwrap().parse().unwrap();
            assert!((0.0..WIDTH).contains(&place), "{place} in {text}");
        }
    }
}
