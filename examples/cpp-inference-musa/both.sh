# The model from Python, then the C++ program with it: what `torchferry accept` runs. `infer` has to be built.
set -e
python export.py
build/infer model/model.pt model/expected.txt
