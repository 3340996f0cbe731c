"""Writes methods/*.json.gz: what PyTorch and NumPy give for the methods of tensors, a file a subject.

    pip install -r requirements.txt && python methods.py [SUBJECT ..]

methods/case.py says what a case is; the other files of that folder say which there are.
"""

import importlib
import os
import sys

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "methods")
sys.path.insert(0, FOLDER)
import case  # noqa: E402

subjects = sys.argv[1:] or sorted(f[:-3] for f in os.listdir(FOLDER) if f.endswith(".py") and f != "case.py")
for subject in subjects:
    importlib.import_module(subject)
    case.write(FOLDER, subject)
