"""What people think of explanations: the paper's human evaluation. No torch here.

``rounds`` draws the questions and hides which model is which, ``pages`` makes a page for each
judge, ``sheets`` checks the files that judges save, ``agreement`` says how far judges agree, and
``table`` makes the paper's table. (``pmn_cl.claims.rule`` is something else: it judges claims.)
"""
