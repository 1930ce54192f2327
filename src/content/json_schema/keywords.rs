//! The keywords of JSON Schema, by the form of their values.

/// Form of a keyword's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// One schema.
    Schema,
    /// A list of at least one schema.
    Schemas,
    /// Schemas by names of the user.
    SchemaMap,
    /// Schemas by regular expressions.
    PatternMap,
    /// A reference to a schema.
    Reference,
    /// One of the names of types, or a list of them.
    Types,
    /// A number.
    Number,
    /// A number above zero.
    PositiveNumber,
    /// A whole number that is not negative.
    Count,
    /// A regular expression.
    Pattern,
    /// A list of texts.
    Names,
    /// Lists of texts, by names.
    NamesMap,
    /// `true` or `false`.
    Flag,
    /// A list of any values.
    Values,
    /// Any value: it is compared, or it only informs.
    Any,
    /// A restriction that is not checked here.
    Unknown,
}

const KNOWN_KEYWORDS: [(&str, Form); 50] = [
    ("$ref", Form::Reference),
    ("$defs", Form::SchemaMap),
    ("definitions", Form::SchemaMap),
    ("type", Form::Types),
    ("enum", Form::Values),
    ("const", Form::Any),
    ("multipleOf", Form::PositiveNumber),
    ("maximum", Form::Number),
    ("exclusiveMaximum", Form::Number),
    ("minimum", Form::Number),
    ("exclusiveMinimum", Form::Number),
    ("maxLength", Form::Count),
    ("minLength", Form::Count),
    ("pattern", Form::Pattern),
    ("prefixItems", Form::Schemas),
    ("items", Form::Schema),
    ("maxItems", Form::Count),
    ("minItems", Form::Count),
    ("uniqueItems", Form::Flag),
    ("contains", Form::Schema),
    ("maxContains", Form::Count),
    ("minContains", Form::Count),
    ("properties", Form::SchemaMap),
    ("patternProperties", Form::PatternMap),
    ("additionalProperties", Form::Schema),
    ("propertyNames", Form::Schema),
    ("required", Form::Names),
    ("dependentRequired", Form::NamesMap),
    ("dependentSchemas", Form::SchemaMap),
    ("maxProperties", Form::Count),
    ("minProperties", Form::Count),
    ("allOf", Form::Schemas),
    ("anyOf", Form::Schemas),
    ("oneOf", Form::Schemas),
    ("not", Form::Schema),
    ("if", Form::Schema),
    ("then", Form::Schema),
    ("else", Form::Schema),
    ("unevaluatedItems", Form::Unknown),
    ("unevaluatedProperties", Form::Unknown),
    ("dependencies", Form::Unknown),
    ("additionalItems", Form::Unknown),
    ("$dynamicRef", Form::Unknown),
    ("$recursiveRef", Form::Unknown),
    ("$anchor", Form::Unknown),
    ("$dynamicAnchor", Form::Unknown),
    ("$recursiveAnchor", Form::Unknown),
    ("$vocabulary", Form::Unknown),
    ("disallow", Form::Unknown),
    ("extends", Form::Unknown),
];

/// Names of types.
pub(super) const TYPE_NAMES: [&str; 7] =
    ["null", "boolean", "object", "array", "number", "string", "integer"];

/// Returns the form of a keyword's value. Keywords that are not in the table are annotations, with any value.
pub(super) fn form(keyword: &str) -> Form {
    KNOWN_KEYWORDS.iter().find(|(name, _)| *name == keyword).map_or(Form::Any, |(_, form)| *form)
}
