"""Region features: from the forms they are published in to one store.

Read in this order: ``images`` (what a form is read into), ``readers`` (what a reader is, and which
there are) with ``tsv``, ``hdf5`` and ``npy``; ``pickles`` (reading them without running them);
``boxes`` (which boxes are kept); ``counts`` (what was left out, and why); ``spool`` (what is done
so far, to go on from); ``image_lists`` and ``simulated`` (features made up, to try things
out); ``request`` (what is asked for) and ``preparation`` (all of it); ``command`` (for people).
"""
