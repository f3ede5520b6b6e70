"""One cell -> one record:
inputs, the agent's container, driving, collecting, the verdict, the record, who is to blame.
"""
