//! Approximate size of an event in memory.
//!
//! The size is the sum of the lengths of the event's texts, and of a constant for each other value. It is found by a
//! serializer that writes nothing: it adds up lengths and never looks at the texts. Writing JSON only to count its
//! bytes would read every byte of an output of a megabyte, on the runtime's thread, before the output is written for
//! the store.

use std::fmt::{self, Display};

use serde::ser::{
    self, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant,
    SerializeTuple, SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

use crate::session::events::event::Event;

/// Number of bytes for which a value counts that is no text.
const VALUE_BYTES: usize = size_of::<u64>();

/// Returns the approximate number of bytes of an event in memory.
pub(super) fn size(event: &Event) -> usize {
    let mut bytes = ByteCount(size_of::<Event>());
    // Counting cannot fail. An event that fails to be serialized fails later, where it is written.
    let _ = event.serialize(&mut bytes);
    bytes.0
}

/// Serializer that counts bytes and writes nothing.
struct ByteCount(usize);

/// Error of a type that fails to be serialized.
#[derive(Debug)]
struct Unserializable;

impl Display for Unserializable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value cannot be serialized")
    }
}

impl std::error::Error for Unserializable {}

impl ser::Error for Unserializable {
    fn custom<T: Display>(_: T) -> Self {
        Self
    }
}

type Counted = Result<(), Unserializable>;

/// Methods of a serializer for types of a fixed size.
macro_rules! count_values {
    ($($method:ident($type:ty),)*) => {
        $(fn $method(self, _: $type) -> Counted {
            self.0 += VALUE_BYTES;
            Ok(())
        })*
    };
}

impl<'a> Serializer for &'a mut ByteCount {
    type Ok = ();
    type Error = Unserializable;
    type SerializeSeq = &'a mut ByteCount;
    type SerializeTuple = &'a mut ByteCount;
    type SerializeTupleStruct = &'a mut ByteCount;
    type SerializeTupleVariant = &'a mut ByteCount;
    type SerializeMap = &'a mut ByteCount;
    type SerializeStruct = &'a mut ByteCount;
    type SerializeStructVariant = &'a mut ByteCount;

    count_values! {
        serialize_bool(bool),
        serialize_i8(i8),
        serialize_i16(i16),
        serialize_i32(i32),
        serialize_i64(i64),
        serialize_u8(u8),
        serialize_u16(u16),
        serialize_u32(u32),
        serialize_u64(u64),
        serialize_f32(f32),
        serialize_f64(f64),
        serialize_char(char),
        serialize_unit_struct(&'static str),
    }

    fn serialize_str(self, text: &str) -> Counted {
        self.0 += text.len();
        Ok(())
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Counted {
        self.0 += bytes.len();
        Ok(())
    }

    fn serialize_none(self) -> Counted {
        self.serialize_unit()
    }

    fn serialize_some<T: ?Sized + Serialize>(self, value: &T) -> Counted {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Counted {
        self.0 += VALUE_BYTES;
        Ok(())
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Counted {
        self.serialize_unit()
    }

    fn serialize_newtype_struct<T: ?Sized + Serialize>(
        self,
        _: &'static str,
        value: &T,
    ) -> Counted {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: ?Sized + Serialize>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &T,
    ) -> Counted {
        value.serialize(self)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self, Unserializable> {
        Ok(self)
    }

    fn serialize_tuple(self, _: usize) -> Result<Self, Unserializable> {
        Ok(self)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self, Unserializable> {
        Ok(self)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, Unserializable> {
        Ok(self)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self, Unserializable> {
        Ok(self)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, Unserializable> {
        Ok(self)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, Unserializable> {
        Ok(self)
    }
}

/// Implementations of the traits for values with parts, which count their parts.
macro_rules! count_parts {
    ($($trait:ident::$method:ident($($key:ty)?),)*) => {
        $(impl $trait for &mut ByteCount {
            type Ok = ();
            type Error = Unserializable;

            fn $method<T: ?Sized + Serialize>(&mut self, $(_: $key,)? value: &T) -> Counted {
                value.serialize(&mut **self)
            }

            fn end(self) -> Counted {
                Ok(())
            }
        })*
    };
}

count_parts! {
    SerializeSeq::serialize_element(),
    SerializeTuple::serialize_element(),
    SerializeTupleStruct::serialize_field(),
    SerializeTupleVariant::serialize_field(),
    SerializeStruct::serialize_field(&'static str),
    SerializeStructVariant::serialize_field(&'static str),
}

impl SerializeMap for &mut ByteCount {
    type Ok = ();
    type Error = Unserializable;

    fn serialize_key<T: ?Sized + Serialize>(&mut self, key: &T) -> Counted {
        key.serialize(&mut **self)
    }

    fn serialize_value<T: ?Sized + Serialize>(&mut self, value: &T) -> Counted {
        value.serialize(&mut **self)
    }

    fn end(self) -> Counted {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_counts_for_its_texts_however_they_are_escaped() {
        let base = size(&Event::Notice(String::new()));
        assert_eq!(size(&Event::Notice("\u{1}\"ä".repeat(100))), base + 400);
        assert_eq!(size(&Event::Text("x".repeat(1000))), base + 1000);
    }
}
