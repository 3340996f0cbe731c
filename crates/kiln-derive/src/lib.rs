//! `#[derive(Module)]`: visits the fields of a struct under their names.

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::quote;
use syn::{Data, DeriveInput, Error, Field, GenericParam, Generics, Member, parse_quote};

/// Implements `kiln::nn::Module` for a struct whose fields all do; `#[module(skip)]` leaves a field out.
#[proc_macro_derive(Module, attributes(module))]
pub fn derive_module(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    implement(input).unwrap_or_else(Error::into_compile_error).into()
}

fn implement(input: DeriveInput) -> Result<Tokens, Error> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new_spanned(&input.ident, "only structs derive Module"));
    };
    let mut visits = Vec::new();
    for (member, field) in data.fields.members().zip(&data.fields) {
        if !is_skipped(field)? {
            visits.push(visit(&member));
        }
    }
    let (name, generics) = (&input.ident, with_bounds(input.generics.clone()));
    let (params, args, bounds) = generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        impl #params ::kiln::nn::Module for #name #args #bounds {
            fn visit(&self, prefix: &str, f: &mut dyn FnMut(&str, &::kiln::Tensor)) {
                #(#visits)*
            }
        }
    })
}

/// Every type parameter is a module, as it may be the type of a field.
fn with_bounds(mut generics: Generics) -> Generics {
    for param in &mut generics.params {
        if let GenericParam::Type(param) = param {
            param.bounds.push(parse_quote!(::kiln::nn::Module));
        }
    }
    generics
}

fn is_skipped(field: &Field) -> Result<bool, Error> {
    let mut skipped = false;
    for attribute in field.attrs.iter().filter(|a| a.path().is_ident("module")) {
        attribute.parse_nested_meta(|meta| match meta.path.is_ident("skip") {
            true => {
                skipped = true;
                Ok(())
            }
            false => Err(meta.error("the only option is `skip`")),
        })?;
    }
    Ok(skipped)
}

fn visit(member: &Member) -> Tokens {
    let key = match member {
        // `r#type` is the field that others call "type"
        Member::Named(name) => name.to_string().trim_start_matches("r#").to_owned(),
        Member::Unnamed(index) => index.index.to_string(),
    };
    quote! {
        ::kiln::nn::Module::visit(&self.#member, &::kiln::nn::join(prefix, #key), &mut *f);
    }
}
