"""Video-DPRP as published and ours; blur beside deface."""
