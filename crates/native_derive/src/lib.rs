//! `#[derive(Row)]` of the native client: fields of a struct as columns of a row.
//!
//! The derived code names `::porpoise_native_client`, which re-exports this macro beside the trait.

#![forbid(unsafe_code)]

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::quote;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Field, Fields, LitStr, Result, parse_macro_input};

/// Derives `porpoise_native_client::Row` for a struct with named fields. A field is the column of its
/// name, or of the name in `#[row(column = "...")]`.
#[proc_macro_derive(Row, attributes(row))]
pub fn derive_row(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let tokens = row(&input).unwrap_or_else(|error| error.to_compile_error());
    tokens.into()
}

fn row(input: &DeriveInput) -> Result<Tokens> {
    let Data::Struct(data) = &input.data else {
        let text = "Row can be derived for structs only";
        return Err(Error::new(input.span(), text));
    };
    let Fields::Named(fields) = &data.fields else {
        let text = "Row can be derived for structs with named fields only";
        return Err(Error::new(input.span(), text));
    };
    let (mut names, mut columns) = (Vec::new(), Vec::new());
    for field in &fields.named {
        columns.push(column_of(field)?);
        names.push(&field.ident);
    }
    let name = &input.ident;
    let (generics, arguments, conditions) = input.generics.split_for_impl();
    Ok(quote! {
        impl #generics ::porpoise_native_client::Row for #name #arguments #conditions {
            const COLUMNS: &'static [&'static str] = &[#(#columns),*];

            fn to_values(&self) -> ::std::vec::Vec<::porpoise_native_client::Value> {
                ::std::vec![#(::porpoise_native_client::IntoValue::to_value(&self.#names)),*]
            }

            fn from_values<'v>(
                values: impl ::std::iter::IntoIterator<
                    Item = ::porpoise_native_client::ValueRef<'v>,
                >,
            ) -> ::porpoise_native_client::Result<Self> {
                let mut values = ::porpoise_native_client::ColumnValues::new(values);
                let row = Self { #(#names: values.next_column(#columns)?),* };
                values.finish()?;
                ::std::result::Result::Ok(row)
            }
        }
    })
}

/// The name of a field's column.
fn column_of(field: &Field) -> Result<LitStr> {
    let mut column = None;
    for attribute in field.attrs.iter().filter(|a| a.path().is_ident("row")) {
        attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("column") {
                return Err(meta.error("the only attribute of a field is column = \"...\""));
            }
            column = Some(meta.value()?.parse::<LitStr>()?);
            Ok(())
        })?;
    }
    let named = || {
        let name = field.ident.as_ref();
        let name = name.map(|name| name.unraw().to_string());
        LitStr::new(&name.unwrap_or_default(), field.span())
    };
    Ok(column.unwrap_or_else(named))
}
