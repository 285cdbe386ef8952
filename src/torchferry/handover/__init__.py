"""Hand a ported model over to a model zoo: what its rules ask for is prepared, and checked.

`preparing.py` puts a hand-over together from a project, the form of the zoo (`backends/handover_forms.py`) and the
evidence of `torchferry accept`; `writing.py` writes it into a new folder; `checking.py` judges a folder by the rules.
No program of the project is run: its arguments are read from the text (`arguments.py`).
"""
