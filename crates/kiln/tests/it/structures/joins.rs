//! Random expressions of joined matrices, against their elements computed one by one: at lengths that are no whole number
//! of vectors, where loops are divided, and at sizes that threads share. On small whole numbers, exact in every dtype.

use crate::fuzz::{Rng, seeds};
use kiln::{DType, Tensor, s};

const DTYPES: [DType; 8] = [
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::F16,
    DType::BF16,
    DType::F32,
    DType::F64,
];

/// A matrix, lazy and as its rows.
struct Matrix {
    lazy: Tensor,
    rows: Vec<Vec<i64>>,
}

impl Matrix {
    fn shape(&self) -> [usize; 2] {
        [self.rows.len(), self.rows[0].len()]
    }

    /// Elements by their row and column.
    fn of([rows, columns]: [usize; 2], lazy: Tensor, at: impl Fn(usize, usize) -> i64) -> Matrix {
        let row = |i| (0..columns).map(|j| at(i, j)).collect();
        Matrix { lazy, rows: (0..rows).map(row).collect() }
    }
}

struct Program {
    rng: Rng,
    dtype: DType,
    text: String,
}

impl Program {
    fn leaf(&mut self, shape: [usize; 2]) -> Matrix {
        let data: Vec<i64> =
            (0..shape[0] * shape[1]).map(|_| self.rng.below(5) as i64 - 2).collect();
        let lazy = Tensor::from_vec(data.clone(), shape).cast(self.dtype);
        self.text += &format!("x{shape:?}");
        Matrix::of(shape, lazy, |i, j| data[i * shape[1] + j])
    }

    /// A matrix of this shape, made of steps.
    fn matrix(&mut self, shape: [usize; 2], steps: usize) -> Matrix {
        if steps == 0 {
            return self.leaf(shape);
        }
        match self.rng.below(6) {
            0..=2 => self.joined(shape, steps - 1),
            3 => self.added(shape, steps - 1),
            4 => self.flipped(shape, steps - 1),
            _ => self.sliced(shape, steps - 1),
        }
    }

    /// Two parts along an axis; lengths of 1 are likely.
    fn joined(&mut self, shape: [usize; 2], steps: usize) -> Matrix {
        let axis = self.rng.below(2);
        if shape[axis] < 2 {
            return self.leaf(shape);
        }
        let most = if self.rng.one_in(4) { 1 } else { shape[axis] - 1 };
        let first = 1 + self.rng.below(most);
        let with = |n: usize| std::array::from_fn(|i| if i == axis { n } else { shape[i] });
        self.text += &format!("cat{axis}(");
        let a = self.matrix(with(first), steps);
        self.text += ", ";
        let b = self.matrix(with(shape[axis] - first), steps);
        self.text += ")";
        let lazy = Tensor::cat([&a.lazy, &b.lazy], axis);
        Matrix::of(shape, lazy, |i, j| match axis {
            0 if i >= first => b.rows[i - first][j],
            1 if j >= first => b.rows[i][j - first],
            _ => a.rows[i][j],
        })
    }

    fn added(&mut self, shape: [usize; 2], steps: usize) -> Matrix {
        self.text += "(";
        let a = self.matrix(shape, steps);
        self.text += " + ";
        let b = self.matrix(shape, steps);
        self.text += ")";
        Matrix::of(shape, &a.lazy + &b.lazy, |i, j| a.rows[i][j] + b.rows[i][j])
    }

    fn flipped(&mut self, shape: [usize; 2], steps: usize) -> Matrix {
        let axis = self.rng.below(2);
        self.text += &format!("flip{axis}(");
        let a = self.matrix(shape, steps);
        self.text += ")";
        let [rows, columns] = shape;
        Matrix::of(shape, a.lazy.flip(axis), |i, j| match axis {
            0 => a.rows[rows - 1 - i][j],
            _ => a.rows[i][columns - 1 - j],
        })
    }

    /// A part of a larger matrix.
    fn sliced(&mut self, shape: [usize; 2], steps: usize) -> Matrix {
        let [top, left, more] = [2, 9, 5].map(|n| self.rng.below(n));
        self.text += &format!("part{:?}(", [top, left]);
        let a = self.matrix([shape[0] + top, shape[1] + left + more], steps);
        self.text += ")";
        let lazy = a.lazy.get(s![top.., left..left + shape[1]]);
        Matrix::of(shape, lazy, |i, j| a.rows[i + top][j + left])
    }
}

/// What is wrong with the program of a seed.
fn fault(seed: u64) -> Option<String> {
    let mut rng = Rng(seed);
    let dtype = rng.pick(&DTYPES);
    let shape = match rng.below(4) {
        0 => [1 + rng.below(3), 20_000 + rng.below(30_000)],
        1 => [1 + rng.below(300), 1 + rng.below(300)],
        _ => [1 + rng.below(7), 1 + rng.below(200)],
    };
    let steps = 1 + rng.below(3);
    let mut program = Program { rng, dtype, text: String::new() };
    let right = program.matrix(shape, steps);
    assert_eq!(right.shape(), shape);
    let about = format!("seed {seed}, {dtype} {shape:?}: {}", program.text);
    let all: Vec<i64> = right.rows.concat();
    let rows: Vec<i64> = right.rows.iter().map(|row| row.iter().sum()).collect();
    let sums = right.lazy.cast(DType::I64).sum(1);
    match kiln::realize([&right.lazy, &sums]) {
        Ok(()) if right.lazy.cast(DType::I64).to_vec().ok() != Some(all) => Some(about),
        Ok(()) if sums.to_vec().ok() != Some(rows) => Some(format!("sums of {about}")),
        Ok(()) => None,
        Err(error) => Some(format!("{about}: {error}")),
    }
}

#[test]
fn joined_matrices_are_those_of_their_elements() {
    let faults: Vec<String> = seeds(60).into_iter().filter_map(fault).take(5).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
