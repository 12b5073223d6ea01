"""What people think of explanations: the paper's human evaluation. No torch here.

``rounds`` draws the questions and hides which model is which, ``pages`` makes a page for each
judge (a person who grades explanations), ``sheets`` checks the files that judges save,
``agreement`` measures how far judges agree, and ``table`` makes the paper's table.
"""
