//! `#[derive(Module)]`: visits the fields of a struct, or of an enum's variant, under their names.

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::{format_ident, quote};
use syn::{
    Data, DataEnum, DeriveInput, Error, Field, Fields, GenericParam, Generics, LitStr, Member,
    parse_quote,
};

/// Implements `kiln::nn::Module` for a struct or an enum whose fields all do. Of a field, `#[module(skip)]` leaves it out,
/// `#[module(rename = "name")]` gives it another name, and `#[module(flatten)]` leaves its name out of the names of what
/// is in it.
#[proc_macro_derive(Module, attributes(module))]
pub fn derive_module(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    implement(input).unwrap_or_else(Error::into_compile_error).into()
}

fn implement(input: DeriveInput) -> Result<Tokens, Error> {
    let arms = arms(&input)?;
    let (name, generics) = (&input.ident, with_bounds(input.generics.clone()));
    let (params, args, bounds) = generics.split_for_impl();
    let looking = body(&arms, |arm| &arm.visits);
    let changing = body(&arms, |arm| &arm.changes);
    let adding = body(&arms, |arm| &arm.keys);
    Ok(quote! {
        #[automatically_derived]
        #[allow(unused_variables)]
        impl #params ::kiln::nn::Module for #name #args #bounds {
            fn visit(&self, prefix: &str, f: &mut dyn FnMut(&str, &::kiln::Tensor)) {
                #looking
            }

            fn visit_mut(
                &mut self,
                prefix: &str,
                f: &mut dyn FnMut(&str, &mut ::kiln::Tensor),
            ) -> ::core::result::Result<(), ::kiln::Error> {
                #changing
                ::core::result::Result::Ok(())
            }

            fn key(&self, key: &mut ::kiln::nn::Key) {
                use ::kiln::nn::{Hashed as _, Hidden as _, Shown as _};
                key.add(::core::any::type_name::<Self>());
                #adding
            }
        }
    })
}

/// What is done for a struct, or for one variant of an enum.
struct Arm {
    pattern: Tokens,
    visits: Vec<Tokens>,
    changes: Vec<Tokens>,
    keys: Vec<Tokens>,
}

fn arms(input: &DeriveInput) -> Result<Vec<Arm>, Error> {
    match &input.data {
        Data::Struct(data) => Ok(vec![arm(quote!(Self), &data.fields)?]),
        Data::Enum(DataEnum { variants, .. }) => {
            let of_variant = |v: &syn::Variant| {
                let name = &v.ident;
                arm(quote!(Self::#name), &v.fields)
            };
            variants.iter().map(of_variant).collect()
        }
        Data::Union(_) => Err(Error::new_spanned(&input.ident, "a union derives no Module")),
    }
}

fn body(arms: &[Arm], of: impl Fn(&Arm) -> &Vec<Tokens>) -> Tokens {
    if arms.is_empty() {
        return quote!(match *self {});
    }
    let arms = arms.iter().map(|arm| {
        let (pattern, lines) = (&arm.pattern, of(arm));
        quote!(#pattern => { #(#lines)* })
    });
    quote!(match self { #(#arms)* })
}

fn arm(path: Tokens, fields: &Fields) -> Result<Arm, Error> {
    let mut arm = Arm { pattern: Tokens::new(), visits: vec![], changes: vec![], keys: vec![] };
    let mut bindings = Vec::new();
    for (i, (member, field)) in fields.members().zip(fields).enumerate() {
        let options = Options::of(field)?;
        let (binding, name) = (format_ident!("field_{i}"), options.name(&member));
        bindings.push(quote!(#member: #binding));
        if options.skip {
            arm.keys.push(quote!((&&::kiln::nn::Field(&*#binding)).add_to(&mut *key);));
            continue;
        }
        arm.visits.push(quote!(::kiln::nn::Module::visit(#binding, #name, &mut *f);));
        arm.changes.push(quote!(::kiln::nn::Module::visit_mut(#binding, #name, &mut *f)?;));
        arm.keys.push(quote!(::kiln::nn::Module::key(#binding, &mut *key);));
    }
    // variants of an enum differ by name
    let variant = path.to_string();
    arm.keys.push(quote!(key.add(#variant);));
    arm.pattern = quote!(#path { #(#bindings,)* .. });
    Ok(arm)
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

/// What `#[module(..)]` says of a field.
#[derive(Default)]
struct Options {
    skip: bool,
    flatten: bool,
    rename: Option<LitStr>,
}

impl Options {
    fn of(field: &Field) -> Result<Options, Error> {
        let mut options = Options::default();
        for attribute in field.attrs.iter().filter(|a| a.path().is_ident("module")) {
            attribute.parse_nested_meta(|meta| {
                match () {
                    () if meta.path.is_ident("skip") => options.skip = true,
                    () if meta.path.is_ident("flatten") => options.flatten = true,
                    () if meta.path.is_ident("rename") => {
                        options.rename = Some(meta.value()?.parse()?);
                    }
                    () => {
                        return Err(meta.error("the options are skip, flatten and rename = \"..\""));
                    }
                }
                Ok(())
            })?;
        }
        Ok(options)
    }

    /// An expression of the name that the tensors of a field start with.
    fn name(&self, member: &Member) -> Tokens {
        if self.flatten {
            return quote!(prefix);
        }
        let key = match (&self.rename, member) {
            (Some(name), _) => name.value(),
            // `r#type` is the field that others call "type"
            (None, Member::Named(name)) => name.to_string().trim_start_matches("r#").to_owned(),
            (None, Member::Unnamed(index)) => index.index.to_string(),
        };
        quote!(&::kiln::nn::join(prefix, #key))
    }
}
