//! Enums from JSON with one reader for all variants.
//!
//! # Why
//! A derived reader has code of its own for each variant with fields, and everybody loads all of it with the page. Here the fields of all
//! variants are read into one struct, and the tag decides what is made of them. Written they are as derived: `"tag"` or
//! `{"tag": {fields}}`.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

/// A tag with the fields of whichever variant it names.
pub(super) struct Tagged<F> {
    pub tag: String,
    pub fields: F,
}

impl<F> Tagged<F> {
    /// A field that the variant needs.
    pub fn need<T, E: Error>(field: Option<T>) -> Result<T, E> {
        field.ok_or_else(|| E::custom("a field is missing"))
    }
}

impl<'de, F: Deserialize<'de> + Default> Deserialize<'de> for Tagged<F> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TaggedVisitor(PhantomData))
    }
}

struct TaggedVisitor<F>(PhantomData<F>);

impl<'de, F: Deserialize<'de> + Default> Visitor<'de> for TaggedVisitor<F> {
    type Value = Tagged<F>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a tag")
    }

    fn visit_str<E: Error>(self, tag: &str) -> Result<Self::Value, E> {
        Ok(Tagged { tag: tag.to_owned(), fields: F::default() })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let tag = map.next_key()?.ok_or_else(|| A::Error::custom("a tag is missing"))?;
        Ok(Tagged { tag, fields: map.next_value()? })
    }
}
