//! Part of pass `render`: vector types and small inline functions, printed above the kernels that use them.

use super::c_expr::Dialect;
use kiln_ir::DType;
use std::collections::BTreeSet;

/// What a kernel uses.
#[derive(Default)]
pub(super) struct Helpers {
    vectors: BTreeSet<(DType, u16)>,
    /// Text by order of first use; a function is after those that it calls.
    functions: Vec<String>,
    names: BTreeSet<String>,
    /// See [`Target::widened_bytes`](crate::target::Target).
    widened_bytes: usize,
    pub(super) dialect: Dialect,
}

impl Helpers {
    /// Nothing yet.
    pub(super) fn new(widened_bytes: usize, dialect: Dialect) -> Helpers {
        Helpers { widened_bytes, dialect, ..Helpers::default() }
    }

    /// The type of one element.
    pub(super) fn scalar_type(&self, dtype: DType) -> &'static str {
        self.dialect.scalar_type(dtype)
    }

    /// The text of all of it.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for &(dtype, lanes) in &self.vectors {
            let (of, name) = (self.scalar_type(dtype), vector_name(dtype, lanes));
            let (size, align) = (dtype.size() * lanes as usize, dtype.size());
            text.push_str(&format!(
                "typedef {of} {name} __attribute__((vector_size({size}), aligned({align})));\n"
            ));
        }
        self.functions.iter().for_each(|f| text.push_str(f));
        text
    }

    /// The vector type of `lanes` elements.
    pub(super) fn vector(&mut self, dtype: DType, lanes: u16) -> String {
        self.vectors.insert((dtype, lanes));
        vector_name(dtype, lanes)
    }

    /// The type of a mask: signed integers of `bytes`.
    pub(super) fn mask(&mut self, bytes: usize, lanes: u16) -> String {
        self.vector(mask_dtype(bytes), lanes)
    }

    /// The vector type as which memory of `dtype` is read and written: bools are bytes there.
    pub(super) fn memory_vector(&mut self, dtype: DType, lanes: u16) -> String {
        self.vector(if dtype == DType::Bool { DType::I8 } else { dtype }, lanes)
    }

    /// The scalar or vector type.
    pub(super) fn type_of(&mut self, dtype: DType, lanes: u16) -> String {
        if lanes == 1 { self.scalar_type(dtype).to_string() } else { self.vector(dtype, lanes) }
    }

    /// Makes a function known once: `head` is the type and parameters, around the name.
    fn function(&mut self, name: &str, of: &str, parameters: &str, body: &str) -> String {
        if self.names.insert(name.to_string()) {
            self.functions.push(format!("static inline {of} {name}({parameters}) {{ {body} }}\n"));
        }
        name.to_string()
    }

    /// The larger or the smaller; NaN if either is.
    pub(super) fn extremum(&mut self, larger: bool, dtype: DType, lanes: u16) -> String {
        let (op, test) = if larger { ("max", "a < b") } else { ("min", "b < a") };
        let of = self.type_of(dtype, lanes);
        let name = format!("{op}_{}", tag(dtype, lanes));
        let parameters = format!("{of} a, {of} b");
        if lanes == 1 {
            let nan = if dtype.is_float() { " || b != b" } else { "" };
            return self.function(&name, &of, &parameters, &format!("return {test}{nan} ? b : a;"));
        }
        let select = self.select(dtype, lanes);
        let mask = self.mask(dtype.size(), lanes);
        let nan = if dtype.is_float() { " | (b != b)" } else { "" };
        let body = format!("return {select}(({mask})(({test}){nan}), b, a);");
        self.function(&name, &of, &parameters, &body)
    }

    /// `0.0 - x`. GCC 12 makes `-x` of it where it knows that x is no -0.0, as after a conversion from an integer, and then
    /// 0.0 gives -0.0.
    pub(super) fn zero_minus(&mut self, dtype: DType, lanes: u16) -> String {
        let of = self.type_of(dtype, lanes);
        let name = format!("zero_minus_{}", tag(dtype, lanes));
        let body = match lanes {
            1 => "return x == 0 ? 0 : -x;".to_string(),
            _ => {
                let mask = self.mask(dtype.size(), lanes);
                format!("return ({of})(({mask})-x & ({mask})(x != 0));")
            }
        };
        self.function(&name, &of, &format!("{of} x"), &body)
    }

    /// `where` on vectors, in bits.
    pub(super) fn select(&mut self, dtype: DType, lanes: u16) -> String {
        let (of, m) = (self.vector(dtype, lanes), self.mask(dtype.size(), lanes));
        let body = format!("return ({of})((m & ({m})a) | (~m & ({m})b));");
        let name = format!("where_{}", tag(dtype, lanes));
        self.function(&name, &of, &format!("{m} m, {of} a, {of} b"), &body)
    }

    /// A shift whose distance may be past the width.
    pub(super) fn shift(&mut self, left: bool, dtype: DType, lanes: u16) -> String {
        let (of, bits) = (self.type_of(dtype, lanes), dtype.bits());
        let name = format!("{}_{}", if left { "shl" } else { "shr" }, tag(dtype, lanes));
        let unsigned = self.type_of(unsigned(dtype), lanes);
        let symbol = if left { "<<" } else { ">>" };
        let inside = format!("({unsigned})n < {bits}");
        let body = match (lanes, left || dtype.is_unsigned()) {
            (1, true) => format!("return {inside} ? x {symbol} n : 0;"),
            (1, false) => format!("return x >> ({inside} ? n : {});", bits - 1),
            (_, true) => format!("return (x {symbol} (n & {})) & ({of})({inside});", bits - 1),
            // n | ~inside is all ones past the width; its low bits are the longest distance
            (_, false) => format!("return x >> ((n | ~({of})({inside})) & {});", bits - 1),
        };
        self.function(&name, &of, &format!("{of} x, {of} n"), &body)
    }

    /// Float to integer: truncates, saturates, NaN becomes 0.
    pub(super) fn saturate(&mut self, from: DType, to: DType) -> String {
        // halves are exact as floats; comparing them would call a library
        let from = if from == DType::F16 { DType::F32 } else { from };
        let (of, float) = (self.scalar_type(to), self.scalar_type(from));
        let name = format!("{to}_from_{from}");
        let (lo, hi, min, max) = limits(to, self.dialect);
        let body = format!("return x != x ? 0 : x <= {lo} ? {min} : x >= {hi} ? {max} : ({of})x;");
        self.function(&name, of, &format!("{float} x"), &body)
    }

    /// Half precision from its bits, where there is no arithmetic on it.
    pub(super) fn half_to_float(&mut self) -> String {
        let body = "return vload_half(0, (const __private half*)&x);";
        self.function("float_from_half", "float", "ushort x", body)
    }

    /// The bits of half precision, rounded to nearest even.
    pub(super) fn half_from(&mut self, from: DType) -> String {
        let of = self.scalar_type(from);
        let name = format!("half_from_{from}");
        let body = "ushort h; vstore_half_rte(x, 0, (__private half*)&h); return h;";
        self.function(&name, "ushort", &format!("{of} x"), body)
    }

    /// Applies a scalar expression in `a[i]`, `b[i]`, .. to each lane. Compilers turn the loop into vector code.
    pub(super) fn lanewise(
        &mut self,
        name: &str,
        (dtype, lanes): (DType, u16),
        srcs: &[DType],
        lane: &str,
    ) -> String {
        let of = self.vector(dtype, lanes);
        let mut parameter = |(d, n): (&DType, &str)| format!("{} {n}", self.vector(*d, lanes));
        let parameters: Vec<String> =
            srcs.iter().zip(["a", "b", "c"]).map(&mut parameter).collect();
        let body = format!("{of} r; for (int i = 0; i < {lanes}; i++) r[i] = {lane}; return r;");
        let name = format!("{name}_{}", tag(dtype, lanes));
        self.function(&name, &of, &parameters.join(", "), &body)
    }

    /// Whether compilers make such a vector of one of f16 at once.
    pub(super) fn widens_at_once(&self, to: DType, lanes: u16) -> bool {
        to.size() * lanes as usize <= self.widened_bytes
    }

    /// The same scalar in every lane.
    pub(super) fn splat(&mut self, dtype: DType, lanes: u16) -> String {
        let (of, scalar) = (self.vector(dtype, lanes), self.scalar_type(dtype));
        let body = format!("return ({of}){{{}}};", vec!["x"; lanes as usize].join(","));
        let name = format!("splat_{}", tag(dtype, lanes));
        self.function(&name, &of, &format!("{scalar} x"), &body)
    }

    /// Loads the lanes whose gate is on; bools become a mask.
    pub(super) fn gated_load(&mut self, dtype: DType, lanes: u16) -> String {
        let (of, mask) = (self.memory_vector(dtype, lanes), self.mask(dtype.size(), lanes));
        let scalar = self.scalar_type(dtype);
        let value = if dtype == DType::Bool { "-p[i]" } else { "p[i]" };
        let body = format!(
            "{of} r; for (int i = 0; i < {lanes}; i++) r[i] = gate[i] ? {value} : 0; return r;"
        );
        let name = format!("load_{}", tag(dtype, lanes));
        self.function(&name, &of, &format!("const {scalar}* p, {mask} gate"), &body)
    }

    /// Stores the lanes whose gate is on.
    pub(super) fn gated_store(&mut self, dtype: DType, lanes: u16) -> String {
        let (of, mask) = (self.memory_vector(dtype, lanes), self.mask(dtype.size(), lanes));
        let scalar = self.scalar_type(dtype);
        let body = format!("for (int i = 0; i < {lanes}; i++) if (gate[i]) p[i] = x[i];");
        let name = format!("store_{}", tag(dtype, lanes));
        self.function(&name, "void", &format!("{scalar}* p, {of} x, {mask} gate"), &body)
    }
}

fn vector_name(dtype: DType, lanes: u16) -> String {
    format!("{dtype}x{lanes}")
}

fn tag(dtype: DType, lanes: u16) -> String {
    if lanes == 1 { dtype.to_string() } else { vector_name(dtype, lanes) }
}

/// The signed integer of `bytes`.
pub(super) fn mask_dtype(bytes: usize) -> DType {
    match bytes {
        1 => DType::I8,
        2 => DType::I16,
        4 => DType::I32,
        _ => DType::I64,
    }
}

/// The unsigned integer of the same size.
pub(super) fn unsigned(dtype: DType) -> DType {
    match dtype.size() {
        1 => DType::U8,
        2 => DType::U16,
        4 => DType::U32,
        _ => DType::U64,
    }
}

/// For a saturating conversion: the powers of two from which on (and down to which) it saturates, and to what.
fn limits(to: DType, dialect: Dialect) -> (String, String, String, String) {
    let bits = to.bits();
    let power = |n: u32| format!("{:?}f", 2f64.powi(n as i32));
    if to.is_unsigned() {
        let max = u64::MAX >> (64 - bits);
        let suffix = if dialect == Dialect::C { "ull" } else { "ul" };
        return ("0".into(), power(bits), "0".into(), format!("{max}{suffix}"));
    }
    let (_, max) = to.int_bounds();
    let suffix = if dialect == Dialect::C { "ll" } else { "l" };
    let (min, max) = (format!("(-{max}{suffix}-1)"), format!("{max}{suffix}"));
    (format!("-{}", power(bits - 1)), power(bits - 1), min, max)
}
