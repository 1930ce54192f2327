//! Property tests: pieces of calls give the same calls, however they are numbered and cut.

use proptest::prelude::*;

use super::*;

/// A way in which servers stream the pieces of calls.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// Each piece has a number, counted from `from`, and the first piece of a call has the id.
    /// `repeated`: all pieces have the id.
    Numbered { from: u64, repeated: bool },
    /// Each piece has an id, and none has a number.
    Named,
    /// Pieces have neither ids nor numbers, and the calls follow each other.
    Bare,
    /// All pieces have the number 0, and only the ids differ.
    AllZero,
    /// Each call comes in one piece, with or without an id.
    Whole { ids: bool },
    /// Each call comes in one piece, and all come in one delta.
    Together { ids: bool },
}

fn ways() -> impl Strategy<Value = Way> {
    prop_oneof![
        (0..3u64, any::<bool>()).prop_map(|(from, repeated)| Way::Numbered { from, repeated }),
        Just(Way::Named),
        Just(Way::Bare),
        Just(Way::AllZero),
        any::<bool>().prop_map(|ids| Way::Whole { ids }),
        any::<bool>().prop_map(|ids| Way::Together { ids }),
    ]
}

/// Returns a strategy for calls: names and arguments.
fn calls() -> impl Strategy<Value = Vec<(String, Value)>> {
    let text = prop_oneof!["[ -~]{0,12}", "[\"\\\\{}\\[\\]日🦀\n]{0,8}"];
    let args = prop::collection::btree_map("[a-c{\"]{1,3}", text, 0..4);
    let args = args.prop_map(|args| json!(args));
    prop::collection::vec(("[a-z_]{1,8}", args), 1..6)
}

/// Cuts the arguments of a call at these places.
fn cut(text: &str, places: &[prop::sample::Index]) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    let mut places: Vec<_> = places.iter().map(|place| place.index(letters.len() + 1)).collect();
    places.sort_unstable();
    places.push(letters.len());
    let mut begin = 0;
    let pieces = places.into_iter().map(|end| {
        let piece = letters[begin..end].iter().collect();
        begin = end;
        piece
    });
    pieces.collect()
}

fn piece(index: Option<u64>, id: Option<&str>, name: Option<&str>, arguments: &str) -> Value {
    let mut function = json!({ "arguments": arguments });
    if let Some(name) = name {
        function["name"] = json!(name);
    }
    let mut piece = json!({ "type": "function", "function": function });
    if let Some(index) = index {
        piece["index"] = json!(index);
    }
    if let Some(id) = id {
        piece["id"] = json!(id);
    }
    piece
}

/// Returns the pieces of each call as a server streams the calls in this way. `places`: the points where arguments
/// are cut.
fn sent(calls: &[(String, Value)], way: Way, places: &[prop::sample::Index]) -> Vec<Vec<Value>> {
    let sent = calls.iter().zip(0u64..).map(|((name, args), n)| {
        let (text, id) = (args.to_string(), format!("id-{n}"));
        let (id, name) = (Some(id.as_str()), Some(name.as_str()));
        let pieces = cut(&text, places);
        let first = |at: usize| at == 0;
        let pieces = pieces.iter().enumerate().map(|(at, text)| match way {
            Way::Numbered { from, repeated } => {
                let name = name.filter(|_| first(at) || repeated);
                piece(Some(from + n), id.filter(|_| first(at)), name, text)
            }
            Way::Named => piece(None, id, name.filter(|_| first(at)), text),
            Way::Bare => piece(None, None, name.filter(|_| first(at)), text),
            Way::AllZero => {
                piece(Some(0), id.filter(|_| first(at)), name.filter(|_| first(at)), text)
            }
            Way::Whole { .. } | Way::Together { .. } => Value::Null,
        });
        match way {
            Way::Whole { ids } | Way::Together { ids } => {
                vec![piece(None, id.filter(|_| ids), name, &text)]
            }
            _ => pieces.collect(),
        }
    });
    sent.collect()
}

/// Returns the pieces in the order in which they arrive. Pieces of different calls may mix if each piece tells its
/// call, but the calls begin in order.
fn mixed(sent: Vec<Vec<Value>>, way: Way, order: &[prop::sample::Index]) -> Vec<Value> {
    if !matches!(way, Way::Numbered { .. } | Way::Named) {
        return sent.into_iter().flatten().collect();
    }
    let mut left: Vec<_> = sent.into_iter().map(std::collections::VecDeque::from).collect();
    let (mut arrived, mut begun) = (Vec::new(), 0);
    for turn in 0.. {
        let open: Vec<_> =
            (0..left.len()).filter(|n| !left[*n].is_empty() && *n <= begun).collect();
        if open.is_empty() {
            break;
        }
        let choice = order.get(turn % order.len().max(1)).map_or(0, |it| it.index(open.len()));
        let n = open[choice];
        begun = begun.max(n + 1);
        arrived.extend(left[n].pop_front());
    }
    arrived
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

/// Returns a strategy for any JSON.
fn garbage() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-c{}\"\\\\]{0,6}".prop_map(Value::from),
    ];
    let key = prop_oneof![
        Just("index"),
        Just("id"),
        Just("function"),
        Just("name"),
        Just("arguments"),
        Just("type"),
        Just("x")
    ];
    leaf.prop_recursive(3, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key.clone().prop_map(str::to_owned), inner), 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn however_calls_are_numbered_and_cut_they_are_the_same_calls(
        calls in calls(),
        way in ways(),
        places in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
        order in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let mut built = Calls::default();
        let arrived = mixed(sent(&calls, way, &places), way, &order).into_iter().map(object);
        if matches!(way, Way::Together { .. }) {
            built.add_pieces(arrived.collect());
        } else {
            arrived.for_each(|piece| built.add_pieces(vec![piece]));
        }
        prop_assert!(built.are_whole());
        let whole = built.finish().unwrap();
        let found: Vec<_> = whole.iter().map(|it| (it.call.name.clone(), it.call.args.clone())).collect();
        prop_assert_eq!(found, calls);
        let ids: std::collections::HashSet<_> = whole.iter().map(|it| &it.call.id).collect();
        prop_assert_eq!(ids.len(), whole.len(), "each has an id of its own");
    }

    #[test]
    fn garbage_is_taken_without_a_fault_and_takes_no_more_room_than_it_has(
        deltas in prop::collection::vec(prop::collection::vec(garbage(), 0..4), 0..20),
    ) {
        let size: usize = deltas.iter().flatten().map(|it| it.to_string().len()).sum();
        let pieces = deltas.iter().flatten().count();
        let mut built = Calls::default();
        for delta in deltas {
            built.add_pieces(delta.into_iter().map(object).collect());
        }
        prop_assert!(built.begun.len() <= pieces);
        let kept: usize = built.begun.iter().map(|call| call.arguments.len() + call.name.len() + call.id.len()).sum();
        prop_assert!(kept <= size);
        drop(built.finish());
    }
}
