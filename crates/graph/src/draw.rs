//! Line charts as SVG: axes, lines, a legend. No more than the tables need.

use std::fmt::Write;

#[derive(Clone, PartialEq, Debug)]
pub struct Chart {
    pub title: String,
    pub x_label: String,
    pub y_label: String,
    /// Powers of ten on the vertical axis.
    pub log_y: bool,
    pub series: Vec<(String, Vec<(f64, f64)>)>,
}

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 74.0;
const RIGHT: f64 = 130.0;
const TOP: f64 = 36.0;
const BOTTOM: f64 = 50.0;
/// Distinct without colour vision, too (after Okabe and Ito).
const COLOURS: &[&str] = &[
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000",
];
const TICKS: f64 = 5.0;

impl Chart {
    pub fn svg(&self) -> String {
        let mut out = String::new();
        self.write(&mut out).unwrap_or_default();
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let (x_axis, y_axis) = (self.x_axis(), self.y_axis());
        writeln!(
            out,
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11">"#
        )?;
        writeln!(
            out,
            r##"<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>"##
        )?;
        writeln!(
            out,
            r#"<text x="{LEFT}" y="20" font-size="14">{}</text>"#,
            escaped(&self.title)
        )?;
        for &(value, place) in &y_axis.ticks {
            let y = HEIGHT - BOTTOM - place * (HEIGHT - TOP - BOTTOM);
            writeln!(
                out,
                r##"<path d="M{LEFT} {y:.1}H{:.1}" stroke="#ddd"/><text x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"##,
                WIDTH - RIGHT,
                LEFT - 6.0,
                y + 4.0,
                figure(value)
            )?;
        }
        for &(value, place) in &x_axis.ticks {
            let x = LEFT + place * (WIDTH - LEFT - RIGHT);
            writeln!(
                out,
                r##"<path d="M{x:.1} {:.1}v4" stroke="#000"/><text x="{x:.1}" y="{:.1}" text-anchor="middle">{}</text>"##,
                HEIGHT - BOTTOM,
                HEIGHT - BOTTOM + 17.0,
                figure(value)
            )?;
        }
        writeln!(
            out,
            r##"<path d="M{LEFT} {TOP}V{:.1}H{:.1}" fill="none" stroke="#000"/>"##,
            HEIGHT - BOTTOM,
            WIDTH - RIGHT
        )?;
        writeln!(
            out,
            r#"<text x="{:.1}" y="{:.1}" text-anchor="middle">{}</text>"#,
            (LEFT + WIDTH - RIGHT) / 2.0,
            HEIGHT - 12.0,
            escaped(&self.x_label)
        )?;
        writeln!(
            out,
            r#"<text transform="translate(14 {:.1}) rotate(-90)" text-anchor="middle">{}</text>"#,
            (TOP + HEIGHT - BOTTOM) / 2.0,
            escaped(&self.y_label)
        )?;
        for (number, (name, points)) in self.series.iter().enumerate() {
            self.line(out, number, name, points, &x_axis, &y_axis)?;
        }
        writeln!(out, "</svg>")
    }

    fn line(
        &self,
        out: &mut String,
        number: usize,
        name: &str,
        points: &[(f64, f64)],
        x_axis: &Axis,
        y_axis: &Axis,
    ) -> std::fmt::Result {
        let colour = COLOURS[number % COLOURS.len()];
        let dash = if number >= COLOURS.len() {
            r#" stroke-dasharray="5 3""#
        } else {
            ""
        };
        write!(
            out,
            r#"<path fill="none" stroke="{colour}" stroke-width="1.8"{dash} d=""#
        )?;
        for (at, &(x, y)) in points.iter().enumerate() {
            write!(
                out,
                "{}{:.1} {:.1}",
                if at == 0 { "M" } else { "L" },
                LEFT + x_axis.place(x) * (WIDTH - LEFT - RIGHT),
                HEIGHT - BOTTOM - y_axis.place(y) * (HEIGHT - TOP - BOTTOM)
            )?;
        }
        writeln!(out, r#""/>"#)?;
        let y = TOP + 8.0 + 18.0 * number as f64;
        let x = WIDTH - RIGHT + 12.0;
        writeln!(
            out,
            r#"<path d="M{x} {y}h18" stroke="{colour}" stroke-width="2.5"{dash}/><text x="{:.1}" y="{:.1}">{}</text>"#,
            x + 24.0,
            y + 4.0,
            escaped(name)
        )
    }

    fn x_axis(&self) -> Axis {
        let xs = || {
            self.series
                .iter()
                .flat_map(|(_, points)| points.iter().map(|point| point.0))
        };
        let (low, high) = (xs().fold(f64::INFINITY, f64::min), xs().fold(0.0, f64::max));
        Axis::linear(if low.is_finite() { low.min(high) } else { 0.0 }, high)
    }

    fn y_axis(&self) -> Axis {
        let ys = || {
            self.series
                .iter()
                .flat_map(|(_, points)| points.iter().map(|point| point.1))
        };
        let high = ys().fold(0.0, f64::max);
        if self.log_y {
            let low = ys().filter(|&y| y > 0.0).fold(f64::INFINITY, f64::min);
            Axis::logarithmic(low, high)
        } else {
            Axis::linear(0.0, high)
        }
    }
}

struct Axis {
    low: f64,
    high: f64,
    log: bool,
    /// Value, and its place from 0 to 1.
    ticks: Vec<(f64, f64)>,
}

impl Axis {
    fn linear(low: f64, high: f64) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        let rough = (high - low) / TICKS;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|factor| factor * power)
            .find(|&step| step >= rough)
            .unwrap_or(rough);
        let mut axis = Self {
            low,
            high: (high / step).ceil() * step,
            log: false,
            ticks: Vec::new(),
        };
        let first = (low / step).ceil() as i64;
        axis.ticks = (first..)
            .map(|number| number as f64 * step)
            .take_while(|&value| value <= axis.high + step * 1e-6)
            .map(|value| (value, axis.place(value)))
            .collect();
        axis
    }

    fn logarithmic(low: f64, high: f64) -> Self {
        if !(low.is_finite() && high > 0.0) {
            return Self::linear(0.0, 1.0);
        }
        let (first, last) = (low.log10().floor(), high.log10().ceil());
        let last = if last > first { last } else { first + 1.0 };
        let mut axis = Self {
            low: first,
            high: last,
            log: true,
            ticks: Vec::new(),
        };
        axis.ticks = (first as i32..=last as i32)
            .map(|power| 10_f64.powi(power))
            .map(|value| (value, axis.place(value)))
            .collect();
        axis
    }

    fn place(&self, value: f64) -> f64 {
        let value = if self.log {
            value.max(f64::MIN_POSITIVE).log10()
        } else {
            value
        };
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }
}

fn figure(value: f64) -> String {
    let short = |value: f64, unit: &str| {
        let text = format!("{value:.1}");
        format!("{}{unit}", text.strip_suffix(".0").unwrap_or(&text))
    };
    match value.abs() {
        size if size >= 1e9 => short(value / 1e9, " G"),
        size if size >= 1e6 => short(value / 1e6, " M"),
        size if size >= 1e4 => short(value / 1e3, " k"),
        size if size >= 1.0 || size == 0.0 => short(value, ""),
        _ => format!("{value}"),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_holds_its_lines_and_escapes_its_words() {
        let chart = Chart {
            title: "a < b & c".to_owned(),
            x_label: "K".to_owned(),
            y_label: "%".to_owned(),
            log_y: false,
            series: vec![
                ("one".to_owned(), vec![(8.0, 1.0), (64.0, 5.0)]),
                ("none".to_owned(), Vec::new()),
            ],
        };
        let svg = chart.svg();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        assert!(svg.contains("a &lt; b &amp; c"));
        assert_eq!(svg.matches("stroke-width=\"1.8\"").count(), 2);
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn odd_values_do_not_break_the_axes() {
        for points in [vec![], vec![(0.0, 0.0)], vec![(1.0, 1e-12), (1.0, 1e12)]] {
            for log_y in [false, true] {
                let svg = Chart {
                    title: String::new(),
                    x_label: String::new(),
                    y_label: String::new(),
                    log_y,
                    series: vec![("s".to_owned(), points.clone())],
                }
                .svg();
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            }
        }
    }
}
