//! The choice of the traces that are recorded, by OpenTelemetry's variables.

use anyhow::Context as _;
use opentelemetry_sdk::trace::Sampler;

/// Returns the sampler of a name and an argument; an error if either is wrong. The library would use another sampler
/// then.
pub(super) fn sampler(name: Option<&str>, argument: Option<&str>) -> anyhow::Result<Sampler> {
    let ratio = || match argument {
        None => Ok(1.0),
        Some(text) => {
            let ratio = text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
            ratio.with_context(|| {
                format!("OTEL_TRACES_SAMPLER_ARG is {text:?}, and not a number from 0 to 1")
            })
        }
    };
    let within_parent = |sampler| Sampler::ParentBased(Box::new(sampler));
    Ok(match name.unwrap_or("parentbased_always_on") {
        "always_on" => Sampler::AlwaysOn,
        "always_off" => Sampler::AlwaysOff,
        "traceidratio" => Sampler::TraceIdRatioBased(ratio()?),
        "parentbased_always_on" => within_parent(Sampler::AlwaysOn),
        "parentbased_always_off" => within_parent(Sampler::AlwaysOff),
        "parentbased_traceidratio" => within_parent(Sampler::TraceIdRatioBased(ratio()?)),
        other => anyhow::bail!(
            "OTEL_TRACES_SAMPLER is {other:?}, and not one of always_on, always_off, traceidratio, \
             parentbased_always_on, parentbased_always_off and parentbased_traceidratio"
        ),
    })
}
