//! Constructors of the kinds of figures, each of which registers the figure under a name.

use std::sync::atomic::{AtomicI64, AtomicU64};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// Family of histograms of times, with one label.
pub(super) type TimeFamily = Family<Label, Histogram, fn() -> Histogram>;

/// Name and value of a label. A label has only few values: each value is a time series of its own.
pub(super) type Label = [(&'static str, &'static str); 1];

/// Upper bounds of the histograms' buckets in seconds, from the time of a write to the disk to that of a long answer.
const TIME_BUCKETS: [f64; 18] = [
    0.000_25, 0.000_5, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
    10.0, 30.0, 60.0, 300.0,
];

pub(super) fn gauge(registry: &mut Registry, name: &str, help: &str) -> Gauge<i64, AtomicI64> {
    let gauge = Gauge::default();
    registry.register(name, help, gauge.clone());
    gauge
}

pub(super) fn counter(registry: &mut Registry, name: &str, help: &str) -> Counter<u64, AtomicU64> {
    let counter = Counter::default();
    registry.register(name, help, counter.clone());
    counter
}

pub(super) fn family(registry: &mut Registry, name: &str, help: &str) -> Family<Label, Counter> {
    let family = Family::default();
    registry.register(name, help, family.clone());
    family
}

pub(super) fn times(registry: &mut Registry, name: &str, help: &str) -> Histogram {
    let histogram = Histogram::new(TIME_BUCKETS);
    registry.register_with_unit(name, help, Unit::Seconds, histogram.clone());
    histogram
}

pub(super) fn time_family(registry: &mut Registry, name: &str, help: &str) -> TimeFamily {
    let family =
        Family::new_with_constructor((|| Histogram::new(TIME_BUCKETS)) as fn() -> Histogram);
    registry.register_with_unit(name, help, Unit::Seconds, family.clone());
    family
}

pub(super) fn gauges(registry: &mut Registry, name: &str, help: &str) -> Family<Label, Gauge> {
    let family = Family::default();
    registry.register(name, help, family.clone());
    family
}
