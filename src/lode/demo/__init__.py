"""``lode demo``: everything at once, on this machine, in under two minutes.

``steps.py`` has the steps; ``events.py`` makes the rows, ``clients.py`` sends them as BigQuery's clients
do, ``machine.py`` runs and kills the server, ``spark_step.py`` is the pipeline, ``stage.py`` prints.
"""
