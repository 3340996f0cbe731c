//! The header of an array: a Python dictionary with its dtype, order and shape, as text.

use crate::DType;

/// What a file starts with.
pub(super) const MAGIC: &[u8] = b"\x93NUMPY";

/// What the header says.
pub(super) struct Header {
    pub(super) dtype: DType,
    /// Whether the bytes of each element stand from the highest to the lowest.
    pub(super) is_big_endian: bool,
    /// Whether the first axis is the one along which neighbours lie.
    pub(super) is_fortran: bool,
    pub(super) shape: Vec<usize>,
}

impl Header {
    /// The meaning of the dictionary, or what is wrong with it.
    pub(super) fn parse(text: &[u8]) -> Result<Header, String> {
        let mut parser = Parser(text);
        let (mut descr, mut is_fortran, mut shape) = (None, None, None);
        parser.expect(b'{')?;
        while !parser.skips(b'}') {
            let name = parser.string()?;
            parser.expect(b':')?;
            match name.as_str() {
                "descr" => descr = Some(parser.string()?),
                "fortran_order" => is_fortran = Some(parser.truth()?),
                "shape" => shape = Some(parser.tuple()?),
                _ => return Err(format!("{name:?} in the header")),
            }
            parser.comma(b'}')?;
        }
        let missing = || "the header lacks descr, fortran_order or shape".to_owned();
        let (dtype, is_big_endian) = dtype(&descr.ok_or_else(missing)?)?;
        let (is_fortran, shape) = is_fortran.zip(shape).ok_or_else(missing)?;
        Ok(Header { dtype, is_big_endian, is_fortran, shape })
    }
}

/// Dtypes by NumPy's names, which are without the order of bytes. `V2`, `V1`
/// and `f1` are what NumPy calls bf16, e4m3fn and e5m2 of the package `ml_dtypes`.
const DTYPES: [(&str, DType); 15] = [
    ("b1", DType::Bool),
    ("i1", DType::I8),
    ("i2", DType::I16),
    ("i4", DType::I32),
    ("i8", DType::I64),
    ("u1", DType::U8),
    ("u2", DType::U16),
    ("u4", DType::U32),
    ("u8", DType::U64),
    ("f2", DType::F16),
    ("f4", DType::F32),
    ("f8", DType::F64),
    ("V2", DType::BF16),
    ("V1", DType::F8E4M3),
    ("f1", DType::F8E5M2),
];

fn dtype(descr: &str) -> Result<(DType, bool), String> {
    let known = |name: &str| DTYPES.iter().find(|(of, _)| *of == name).map(|&(_, dtype)| dtype);
    let found = descr.strip_prefix(['<', '|', '=']).and_then(known).map(|dtype| (dtype, false));
    let found =
        found.or_else(|| descr.strip_prefix('>').and_then(known).map(|dtype| (dtype, true)));
    found.ok_or_else(|| format!("dtype {descr:?}, which kiln does not have"))
}

/// What the package `ml_dtypes` writes and NumPy does not read.
const UNREADABLE: DType = DType::F8E5M2;

/// NumPy's name of a dtype.
pub(super) fn descr(dtype: DType) -> Option<String> {
    let (name, _) = DTYPES.iter().find(|&&(_, of)| of == dtype && of != UNREADABLE)?;
    Some(format!("{}{name}", if dtype.size() == 1 { '|' } else { '<' }))
}

/// What is left of the dictionary.
struct Parser<'a>(&'a [u8]);

impl Parser<'_> {
    fn blanks(&mut self) {
        self.0 = self.0.trim_ascii_start();
    }

    /// Goes on behind `c`, if it is next.
    fn skips(&mut self, c: u8) -> bool {
        self.blanks();
        let found = self.0.first() == Some(&c);
        self.0 = &self.0[usize::from(found)..];
        found
    }

    fn expect(&mut self, c: u8) -> Result<(), String> {
        match self.skips(c) {
            true => Ok(()),
            false => Err(format!("the header has no {:?} where one belongs", char::from(c))),
        }
    }

    /// A comma, unless the end comes.
    fn comma(&mut self, end: u8) -> Result<(), String> {
        self.blanks();
        if self.0.first() == Some(&end) { Ok(()) } else { self.expect(b',') }
    }

    fn string(&mut self) -> Result<String, String> {
        self.blanks();
        let quote = match self.0.first() {
            Some(&quote @ (b'\'' | b'"')) => quote,
            Some(b'[') => return Err("an array of records, which kiln does not have".to_owned()),
            _ => return Err("the header has no string where one belongs".to_owned()),
        };
        let rest = &self.0[1..];
        let len = rest.iter().position(|&c| c == quote).ok_or("a string without an end")?;
        self.0 = &rest[len + 1..];
        Ok(String::from_utf8_lossy(&rest[..len]).into_owned())
    }

    fn truth(&mut self) -> Result<bool, String> {
        self.blanks();
        for (word, value) in [(&b"True"[..], true), (b"False", false)] {
            if let Some(rest) = self.0.strip_prefix(word) {
                self.0 = rest;
                return Ok(value);
            }
        }
        Err("fortran_order is neither True nor False".to_owned())
    }

    fn tuple(&mut self) -> Result<Vec<usize>, String> {
        let mut lengths = Vec::new();
        self.expect(b'(')?;
        while !self.skips(b')') {
            lengths.push(self.number()?);
            self.comma(b')')?;
        }
        Ok(lengths)
    }

    fn number(&mut self) -> Result<usize, String> {
        self.blanks();
        let len = self.0.iter().take_while(|c| c.is_ascii_digit()).count();
        let (digits, rest) = self.0.split_at(len);
        // Python 2 wrote long integers so
        self.0 = rest.strip_prefix(b"L").unwrap_or(rest);
        let digits = std::str::from_utf8(digits).expect("digits");
        digits.parse().map_err(|_| "the shape is not a tuple of lengths".to_owned())
    }
}
