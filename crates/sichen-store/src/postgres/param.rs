//! Parameters of statements: one type for all, sent as what the prepared statement asks for, or as
//! what they are where nothing is prepared.
//!
//! # Not here
//! Rows ([`super::row`]).

use std::error::Error;

use bytes::BytesMut;
use tokio_postgres::types::{IsNull, Kind, ToSql, Type, to_sql_checked};
use uuid::Uuid;

/// One parameter.
#[derive(Clone, Debug)]
pub(super) enum Param {
    Null,
    Int(i64),
    Flag(bool),
    Text(String),
    Uuid(Uuid),
    Ints(Vec<i64>),
    OptInts(Vec<Option<i64>>),
    Texts(Vec<String>),
    OptTexts(Vec<Option<String>>),
    Uuids(Vec<Uuid>),
    /// One column of a batch.
    Column(Vec<Param>),
}

impl Param {
    fn int(&self) -> Option<i64> {
        match self {
            Param::Int(n) => Some(*n),
            _ => None,
        }
    }
    fn flag(&self) -> Option<bool> {
        match self {
            Param::Flag(b) => Some(*b),
            _ => None,
        }
    }
    fn text(&self) -> Option<&str> {
        match self {
            Param::Text(s) => Some(s),
            _ => None,
        }
    }
    /// The type under which it is sent where the server is not asked for its own: what the server does
    /// not find fitting it casts, as in an insertion.
    pub fn sql_type(&self) -> Type {
        match self {
            Param::Null => unknown(),
            Param::Int(_) => Type::INT8,
            Param::Flag(_) => Type::BOOL,
            Param::Text(_) => Type::TEXT,
            Param::Uuid(_) => Type::UUID,
            Param::Ints(_) | Param::OptInts(_) => Type::INT8_ARRAY,
            Param::Texts(_) | Param::OptTexts(_) => Type::TEXT_ARRAY,
            Param::Uuids(_) => Type::UUID_ARRAY,
            Param::Column(values) => match values.iter().find(|v| !matches!(v, Param::Null)) {
                Some(Param::Int(_)) => Type::INT8_ARRAY,
                Some(Param::Flag(_)) => Type::BOOL_ARRAY,
                Some(Param::Text(_)) => Type::TEXT_ARRAY,
                Some(Param::Uuid(_)) => Type::UUID_ARRAY,
                _ => unknown(),
            },
        }
    }
    fn uuid(&self) -> Option<Uuid> {
        match self {
            Param::Uuid(id) => Some(*id),
            _ => None,
        }
    }
}

impl ToSql for Param {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Param::Null => Ok(IsNull::Yes),
            Param::Int(n) => match *ty {
                Type::INT2 => i16::try_from(*n)?.to_sql(ty, out),
                Type::INT4 => i32::try_from(*n)?.to_sql(ty, out),
                Type::INT8 => n.to_sql(ty, out),
                _ => Err(format!("a number is no {ty}").into()),
            },
            Param::Flag(b) => b.to_sql_checked(ty, out),
            Param::Text(s) => s.to_sql_checked(ty, out),
            Param::Uuid(id) => id.to_sql_checked(ty, out),
            Param::Ints(v) => v.to_sql_checked(ty, out),
            Param::OptInts(v) => v.to_sql_checked(ty, out),
            Param::Texts(v) => v.to_sql_checked(ty, out),
            Param::OptTexts(v) => v.to_sql_checked(ty, out),
            Param::Uuids(v) => v.to_sql_checked(ty, out),
            Param::Column(v) => {
                fn all<'a, T>(
                    v: &'a [Param],
                    f: impl Fn(&'a Param) -> Option<T>,
                ) -> Vec<Option<T>> {
                    v.iter().map(f).collect()
                }
                match *ty {
                    Type::INT8_ARRAY => all(v, Param::int).to_sql(ty, out),
                    Type::TEXT_ARRAY => all(v, Param::text).to_sql(ty, out),
                    Type::UUID_ARRAY => all(v, Param::uuid).to_sql(ty, out),
                    Type::BOOL_ARRAY => all(v, Param::flag).to_sql(ty, out),
                    // Other columns of the batch give it its length.
                    _ if v.iter().all(|p| matches!(p, Param::Null)) => Ok(IsNull::Yes),
                    _ => Err(format!("a column is no {ty}").into()),
                }
            }
        }
    }
    fn accepts(_: &Type) -> bool {
        // Each variant looks for itself.
        true
    }
    to_sql_checked!();
}

/// The type that the server finds out by itself.
fn unknown() -> Type {
    Type::new(String::new(), 0, Kind::Pseudo, String::new())
}

/// What can be a parameter.
pub(super) trait ToParam {
    fn param(&self) -> Param;
}

macro_rules! to_param {
    ($($type:ty: |$v:ident| $make:expr;)*) => {
        $(impl ToParam for $type {
            fn param(&self) -> Param {
                let $v = self;
                $make
            }
        })*
    };
}

to_param! {
    Param: |v| v.clone();
    u8: |v| Param::Int(i64::from(*v));
    i32: |v| Param::Int(i64::from(*v));
    u32: |v| Param::Int(i64::from(*v));
    i64: |v| Param::Int(*v);
    bool: |v| Param::Flag(*v);
    str: |v| Param::Text(v.to_owned());
    String: |v| Param::Text(v.clone());
    Uuid: |v| Param::Uuid(*v);
    Vec<i64>: |v| Param::Ints(v.clone());
    Vec<String>: |v| Param::Texts(v.clone());
    Vec<Uuid>: |v| Param::Uuids(v.clone());
}

impl<T: ToParam + ?Sized> ToParam for &T {
    fn param(&self) -> Param {
        (**self).param()
    }
}

impl<T: ToParam> ToParam for Option<T> {
    fn param(&self) -> Param {
        self.as_ref().map_or(Param::Null, ToParam::param)
    }
}

/// The parameters of one statement.
pub(super) trait Params {
    fn list(self) -> Vec<Param>;
}

impl Params for () {
    fn list(self) -> Vec<Param> {
        Vec::new()
    }
}

impl Params for Vec<Param> {
    fn list(self) -> Vec<Param> {
        self
    }
}

impl<T: ToParam, const N: usize> Params for [T; N] {
    fn list(self) -> Vec<Param> {
        self.iter().map(ToParam::param).collect()
    }
}

macro_rules! tuples {
    ($(($($name:ident $index:tt),+))*) => {
        $(impl<$($name: ToParam),+> Params for ($($name,)+) {
            fn list(self) -> Vec<Param> {
                vec![$(self.$index.param()),+]
            }
        })*
    };
}

tuples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9)
}

/// A list of parameters of any length.
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        vec![$($crate::postgres::param::ToParam::param(&$value)),*]
    };
}
pub(super) use params;
