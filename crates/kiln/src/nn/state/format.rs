//! What reading and writing have in common: metadata, errors, and dtypes by the format's names.

use crate::DType;
use crate::engine::Failure;
use safetensors::tensor::Dtype;
use std::collections::BTreeMap;
use std::path::Path;

/// Text that a file carries beside its tensors.
pub type Metadata = BTreeMap<String, String>;

/// A failure of the file system.
pub(super) fn failed(path: &Path, why: impl std::fmt::Display) -> Failure {
    format!("{}: {why}", path.display())
}

macro_rules! dtypes {
    ($($ours:ident $theirs:ident),*) => {
        pub(super) fn in_file(dtype: DType) -> Dtype {
            match dtype {
                $(DType::$ours => Dtype::$theirs,)*
                other => unreachable!("no tensor is {other}"),
            }
        }

        pub(super) fn from_file(dtype: Dtype) -> Option<DType> {
            match dtype {
                $(Dtype::$theirs => Some(DType::$ours),)*
                _ => None,
            }
        }
    };
}
dtypes!(Bool BOOL, I8 I8, I16 I16, I32 I32, I64 I64, U8 U8, U16 U16, U32 U32, U64 U64, F16 F16,
    BF16 BF16, F32 F32, F64 F64, F8E4M3 F8_E4M3, F8E5M2 F8_E5M2, F8E4M3FNUZ F8_E4M3FNUZ, F8E5M2FNUZ F8_E5M2FNUZ);
