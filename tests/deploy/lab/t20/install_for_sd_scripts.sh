# As the manual describes the vendor's script: it replaces torch and other packages behind the framework's back.
pip3 install -q --no-index --no-deps --force-reinstall "$(dirname "$0")"/torch-*.whl
